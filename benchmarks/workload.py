"""What is measured: traces and deployments, each made the same way every time."""

from dataclasses import replace
from functools import cache

import numpy as np

from sim.cost.roofline import Roofline
from sim.engine.record import Log, Recorder
from sim.run.driver import run_simulated
from sim.run.form import compiled_log
from sim.run.simulation import Setup, prepare, start
from workloads import read_trace
from workloads.read import read_lengths
from workloads.schema import Trace
from workloads.synthetic import generate
from workloads.transform import scale_rate

AZURE = "azure-2023-conv"
BLOCK_BYTES = 16 * 524_288  # 16 tokens of Llama-2-7B
# The deployment of the table in docs/performance.md, as options of `kvtwin simulate`.
TABLE = {
    "model": "llama-2-7b",
    "gpu": "a100-80gb",
    "max_num_seqs": 128,
    "max_num_batched_tokens": 4096,
    "max_model_len": 4096,
    "kv_cache_memory": 7300 * BLOCK_BYTES,
}
# Room for 256 requests of the Azure hour; from 30 requests a second on, that many run.
WIDE = {
    "model": "llama-3-8b",
    "gpu": "h200",
    "max_num_seqs": 256,
    "max_num_batched_tokens": 8192,
    "max_model_len": 8192,
}
WIDE_RATE = 30.0
POLICIES = (
    "paging",
    "paging:block_size=1",
    "paging:block_size=128",
    "paging+prefix",
    "preallocation",
    "preallocation:reserve=pow2",
    "sliding_window:window=1024,sinks=4",
)
OTHERS = ("paging+int8", "paging+top_k", "chunked", "growing", "virtual")
"""Measured in the loop alone, beside those above."""


@cache
def table_trace(requests: int = 10_000, request_rate: float = 6.45) -> Trace:
    """Azure conversation lengths, prompts cut to 3,500 and totals to 4,096, Poisson arrivals."""
    drawn = generate(requests, request_rate, lengths=read_lengths(AZURE), seed=0)
    prompts = np.minimum(drawn.prompt_tokens, 3500)
    outputs = np.minimum(drawn.output_tokens, 4096 - prompts)
    return replace(drawn, prompt_tokens=prompts, output_tokens=outputs)


@cache
def azure_hour(request_rate: float = WIDE_RATE) -> Trace:
    """19,366 requests; at the default rate the batch of WIDE is near 256."""
    return scale_rate(read_trace(AZURE), request_rate)


def table(policy: str = "paging", requests: int = 10_000, **changes: int) -> Setup:
    """The workload of the table."""
    return prepare(table_trace(requests), policy=policy, **{**TABLE, **changes})  # type: ignore[arg-type]


def hour(policy: str = "paging", **changes: int) -> Setup:
    """The Azure hour with a batch near 256."""
    return prepare(azure_hour(), policy=policy, **{**WIDE, **changes})  # type: ignore[arg-type]


def loop(setup: Setup) -> Recorder:
    """The simulation itself, records kept in memory; neither start-up nor metrics nor files."""
    effects, _, recorder = start(setup)
    run_simulated(effects, Roofline(setup.model, setup.device, setup.tp), setup.fast_forward)
    return recorder


def machine_code(setup: Setup) -> Log:
    """The same as machine code, and its records as columns. The first call compiles for long."""
    return compiled_log(setup, Roofline(setup.model, setup.device, setup.tp))
