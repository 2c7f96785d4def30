"""What a run covers: the real one, or its rehearsal."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.hardware import Device
    from sim.run.simulation import Setup
    from workloads.schema import Trace


@dataclass(frozen=True)
class Plan:
    """Models and policies are in order of worth: time may end before they do."""

    kind: str
    models: tuple[str, ...]  # presets, or paths of config.json
    policies: tuple[str, ...]
    kv_tokens: int  # a cache has the bytes of so many, unquantised; validation holds two caches
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    requests: int
    request_rate: float
    repeats: int
    tests: tuple[str, ...]  # arguments of pytest
    step_batches: tuple[int, ...]
    decode: tuple[tuple[int, int, int, int, int, int], ...]  # batch, context, heads, kv, dim, page
    prefill: tuple[tuple[int, int, int, int, int, int], ...]  # tokens, past, heads, kv, dim, page


GPU = Plan(
    kind="cuda",
    models=("llama-3-8b", "llama-2-13b"),
    policies=(
        "paging:block_size=16",
        "preallocation",
        "sliding_window:window=1024,sinks=4",
        "paging:block_size=16+int8",
        "paging:block_size=128",
        "growing:start=512",
        "paging:block_size=16+int4",
        "chunked:chunk_tokens=512",
        "paging:block_size=16+top_k:k=1024,page=16",
        "preallocation:reserve=pow2",
    ),
    kv_tokens=24_576,  # six of the longest contexts: memory binds before max_num_seqs does
    max_num_seqs=64,
    max_num_batched_tokens=2048,
    max_model_len=4096,
    requests=32,
    request_rate=50.0,
    repeats=1,
    tests=("tests/executor/kernels", "-n", "12", "-k", "not whole_steps", "--maxfail", "5"),
    step_batches=(1, 16, 64),
    decode=(
        (64, 4096, 32, 8, 128, 16),
        (64, 4096, 32, 8, 128, 128),
        (64, 4096, 32, 8, 128, 0),
        (8, 8192, 40, 40, 128, 16),
        (1, 65_536, 32, 8, 128, 16),
    ),
    prefill=((8192, 0, 32, 8, 128, 16), (8192, 0, 40, 40, 128, 0), (2048, 6144, 32, 8, 128, 16)),
)

REHEARSAL = Plan(
    kind="cpu",
    models=("llama-small",),
    policies=("paging:block_size=16", "preallocation", "sliding_window:window=256,sinks=4"),
    kv_tokens=4096,
    max_num_seqs=4,
    max_num_batched_tokens=256,
    max_model_len=1024,
    requests=3,
    request_rate=4.0,
    repeats=1,
    tests=("tests/executor/kernels/test_blocks.py", "-n", "0"),
    step_batches=(1, 4),
    decode=((8, 1024, 8, 2, 64, 16), (8, 1024, 8, 2, 64, 0)),
    prefill=((256, 256, 8, 2, 64, 16),),
)


def setups(plan: Plan, model: str, gpu: "Device | str") -> "list[Setup]":
    """One setup a policy, over the first requests of the shipped conversation trace."""
    from sim.memory.ledger import kv_format
    from sim.model.presets import find_model
    from sim.run.simulation import prepare

    geometry = find_model(model)
    size = plan.kv_tokens * geometry.kv_bytes_per_token(kv_format(geometry, "auto"))
    trace = _requests(plan.requests)
    return [
        prepare(
            trace,
            model=model,
            gpu=gpu,
            policy=policy,
            request_rate=plan.request_rate,
            max_num_seqs=plan.max_num_seqs,
            max_num_batched_tokens=plan.max_num_batched_tokens,
            max_model_len=plan.max_model_len,
            kv_cache_memory=size,
        )
        for policy in plan.policies
    ]


@cache
def _requests(count: int) -> "Trace":
    """The first of the conversation trace; read once, not for every policy."""
    from workloads import read_trace
    from workloads.transform import first

    return first(read_trace("azure-2023-conv"), count)
