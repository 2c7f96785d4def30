"""Whole runs through the kernels, interpreted, against attention in torch: logits by logits.

Both follow the same plans step by step, over pools that begin as NaN. What a GPU would do, but for
its arithmetic: steps of one token, prefixes found in the step that computes them, rings that wrap
inside a chunk, sequences that move and come again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from executor.attention.evicting import EvictingAttention
from executor.attention.torch_path import TorchAttention
from executor.attention.triton_path import TritonAttention
from executor.cache.choice import table_for
from executor.device.assemble import Executor, host_device, random_llama
from executor.device.machine import open_machine
from executor.device.text import Text
from executor.device.torch_device import StepAttention, TorchDevice
from executor.driver import free_run
from executor.kernels.configs import Config
from executor.work import Work
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.model.hf_config import model_from_config
from sim.plan import StepPlan
from sim.run.simulation import prepare
from workloads.schema import PrefixBlocks, Provenance, Trace

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 101,
    "max_position_embeddings": 160,
    "dtype": "float32",
}
MODEL = model_from_config(CONFIG, "tiny", "test")
WINDOWED = model_from_config(
    {
        **CONFIG,
        "num_hidden_layers": 2,
        "sliding_window": 13,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "windows",
    "test",
)
"""Layers of two kinds, in turn."""


def trace(
    prompts: list[int], outputs: list[int], gap: float = 2e-3, prefix: PrefixBlocks | None = None
) -> Trace:
    n = len(prompts)
    arrivals = np.arange(n) * gap
    return Trace(
        "made up", arrivals, np.array(prompts), np.array(outputs), Provenance("test", 0), prefix
    )


MIXED = trace([37, 1, 20], [3, 4, 8])
LONG = trace([70, 3], [3, 20], 0.0)
PAIR = trace([45, 3], [2, 6], 0.0)
TIGHT = trace([19, 14, 22], [14, 16, 12], 0.0)
EQUAL = PrefixBlocks(8, np.arange(4) * 5, np.tile(np.arange(5), 3))
SAME_STEP = trace([40] * 3, [2] * 3, 0.0, EQUAL)
LATER = trace([40] * 3, [2] * 3, 0.1, EQUAL)
TIGHT_BYTES = 2 * 2 * 16 * 4 * 64  # 64 tokens
WIDE = {"max_num_batched_tokens": 128}
INT8 = {"kv_cache_dtype": "int8_fp16"}
WINDOWS = {"model": WINDOWED}

RUNS: dict[str, tuple[str, Trace, dict[str, Any]]] = {
    "paging": ("paging:block_size=8", MIXED, {}),
    "page of one": ("paging:block_size=1", MIXED, {}),
    "chunked": ("chunked:chunk_tokens=64", MIXED, {}),
    "preallocation": ("preallocation", MIXED, {}),
    "pow2": ("preallocation:reserve=pow2", MIXED, {}),
    "buddy": ("preallocation:reserve=oracle,allocator=buddy", MIXED, {}),
    "growing": ("growing:start=4", MIXED, {}),
    "growing by steps": ("growing:start=16,step=8", LONG, {}),
    "window": ("sliding_window:window=12,sinks=3", LONG, {}),
    "window, chunk over it": ("sliding_window:window=12,sinks=3", LONG, WIDE),
    "window of one": ("sliding_window:window=1,sinks=0", MIXED, {}),
    "paged window": ("paging:block_size=8+sliding_window:window=21,sinks=3", LONG, {}),
    "paged window, page of one": ("paging:block_size=1+sliding_window:window=9,sinks=2", MIXED, {}),
    "preempted": ("paging:block_size=8", TIGHT, {"kv_cache_memory": TIGHT_BYTES}),
    "prefix, later": ("paging:block_size=8+prefix", LATER, {}),
    "prefix, same step": ("paging:block_size=8+prefix", SAME_STEP, WIDE),
    "prefix, tight": ("paging:block_size=8+prefix", TIGHT, {"kv_cache_memory": TIGHT_BYTES}),
    "top-k, all": ("paging:block_size=8+top_k:k=160,page=8", MIXED, {}),
    "top-k, few": ("paging:block_size=8+top_k:k=16,page=8", MIXED, {}),
    "int8": ("paging:block_size=8+int8", MIXED, {}),
    "int8, fp16 scales": ("paging:block_size=8+int8:scale=fp16", MIXED, {}),
    "int8 window": ("sliding_window:window=12,sinks=3", LONG, INT8),
    "fp8": ("paging:block_size=8+fp8", MIXED, {}),
    "int4": ("paging:block_size=8+int4:group=4", MIXED, {}),
    "heads evict": ("paging:block_size=8+top_k:k=14,mode=evict", PAIR, {}),
    "heads evict, contiguous": ("preallocation+top_k:k=9,mode=evict", MIXED, {}),
    "unified layers": ("paging:block_size=8,layers=unified", PAIR, WINDOWS),
    "capped layers": ("paging:block_size=8,layers=capped", PAIR, WINDOWS),
    "capped layers, shared": (
        "paging:block_size=8,layers=capped+prefix",
        SAME_STEP,
        WINDOWS | {"max_num_batched_tokens": 64},
    ),
    "capped layers, static": (
        "paging:block_size=8,layers=capped",
        PAIR,
        WINDOWS | {"batching": "static"},
    ),
}

# In the interpreter time goes by programs and tiles, whatever their sizes. Contexts reach two.
TILES = Config(64, 4, 2, block_m=64)


@pytest.fixture(autouse=True)
def large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("decode", "prefill"):
        module = sys.modules[f"executor.kernels.{name}"]
        monkeypatch.setattr(module, f"{name}_config", lambda *_: TILES)


ROUNDED = {"int8": 0.05, "fp8": 0.4, "int4": 0.8}
"""Logits are near 1. A chunk's own keys are read as given here, and as stored there."""


class Twins:
    """Two devices under one plan, and how far their logits are apart."""

    def __init__(self, first: TorchDevice, second: TorchDevice) -> None:
        self.devices, self.worst, self.single_tokens = (first, second), 0.0, 0

    def run(self, plan: StepPlan, work: Work) -> int:
        here, there = (device.step(work)[0] for device in self.devices)
        # A tie between two tokens must not send them apart.
        self.devices[1]._text.chosen.copy_(self.devices[0]._text.chosen)
        self.single_tokens += work.tokens == 1
        if here.numel():
            error = float((here - there).abs().max())
            self.worst = max(self.worst, error if error == error else float("inf"))
        return 10**15


def run_again(call: Callable[[], torch.Tensor]) -> tuple[Callable[[], object], torch.Tensor]:
    """A capture whose replay does what a CUDA graph's does: the same calls on the same memory."""
    result = call()
    return lambda: result.copy_(call()), result


def twins(policy: str, requests: Trace, options: dict[str, Any], replay: bool = False) -> Twins:
    machine = open_machine("cpu")
    given = {"model": MODEL, "max_num_batched_tokens": 32, "kv_cache_memory": 2**20} | options
    setup = prepare(requests, gpu=host_device(machine), policy=policy, max_num_seqs=4, **given)
    model, manager = setup.model, setup.policy.manager(setup.pool)
    llama = random_llama(model, machine)
    devices = []
    for triton in (False, True):
        cache = Executor(setup, machine, llama).cache
        for pool in cache.pools:
            for tensor in (pool.k, pool.v, pool.side):
                if tensor is not None and tensor.is_floating_point() and pool.storage != "fp8":
                    tensor.fill_(float("nan"))
        table = table_for(manager, setup.policy)
        attention: StepAttention
        if cache.scores:
            attention = EvictingAttention(table, cache.pools, cache.scores, torch.float32, triton)
        elif triton:
            attention = TritonAttention(table, cache.pools, cache.marks, cache.views)
        else:
            attention = TorchAttention(table, cache.pools, torch.float32, cache.marks, cache.views)
        text = Text(model.vocab_size, machine.device, len(requests), requests)
        devices.append(TorchDevice(llama, table, attention, text, machine.clock))
    if replay:
        devices[1].capture_decodes(run_again, 4, model.max_position_embeddings)
        assert devices[1].replays
    found = Twins(*devices)
    scheduler = Scheduler(manager, setup.limits)
    free_run(serve(requests, scheduler, Recorder(requests, 1.0)), scheduler, found)
    return found


@pytest.mark.skipif(torch.cuda.is_available(), reason="bits of a GPU differ; it has its own tests")
@pytest.mark.parametrize("name", RUNS)
def test_kernels_and_torch_agree(name: str) -> None:
    policy, requests, options = RUNS[name]
    found = twins(policy, requests, options)
    rounded = [bound for storage, bound in ROUNDED.items() if storage in f"{policy}{options}"]
    assert found.worst <= (rounded or [1e-3])[0]
    if requests is MIXED or requests is LONG:
        assert found.single_tokens > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="bits of a GPU differ; it has its own tests")
@pytest.mark.parametrize(
    "name",
    [
        "paging",
        "page of one",
        "preallocation",
        "growing",
        "window",
        "paged window",
        "int8",
        "capped layers",
    ],
)
def test_replayed_decodes_agree(name: str) -> None:
    """Batches are padded, and launches are those of the first step of their size."""
    policy, requests, options = RUNS[name]
    assert twins(policy, requests, options, replay=True).worst <= (0.05 if name == "int8" else 1e-3)
