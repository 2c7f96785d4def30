"""Whole runs on real tensors: every policy that keeps all tokens gives the same outputs."""

import numpy as np
import pytest
import torch

from executor.cache.table import Slots
from executor.device.assemble import Assembled, Executor, host_device, random_llama
from executor.device.machine import open_machine
from executor.driver import free_run
from executor.work import Work
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.model.hf_config import model_from_config
from sim.plan import Chunk, StepPlan
from sim.run.simulation import Setup, prepare
from workloads.schema import PrefixBlocks, Provenance, Trace

MODEL = model_from_config(
    {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "vocab_size": 101,
        "max_position_embeddings": 128,
        "dtype": "float32",
    },
    "tiny",
    "test",
)
ARRIVALS = np.arange(6) * 2e-3
PROMPTS = np.array([37, 5, 61, 16, 23, 48])
OUTPUTS = np.array([20, 33, 9, 40, 1, 15])
TRACE = Trace("made up", ARRIVALS, PROMPTS, OUTPUTS, Provenance("test", 0))


class Outputs:
    """A device that keeps the logits of its steps; each takes a millisecond."""

    def __init__(self, assembled: Assembled) -> None:
        self.assembled = assembled
        self.logits: list[torch.Tensor] = []
        self.moved = 0
        self.chunks: dict[int, list[tuple[Chunk, Slots]]] = {}  # and the slots up to their ends

    def run(self, plan: StepPlan, work: Work) -> int:
        device = self.assembled.device
        self.logits.append(device.step(work)[0])
        device.table.check(self.assembled.scheduler.manager)
        self.moved += len(device.table.moves)
        for chunk in work.chunks:
            slots = device.table.slots(chunk.request, 0, chunk.start + chunk.tokens)
            self.chunks.setdefault(chunk.request, []).append((chunk, slots))
        return 10**15


def setup(policy: str, memory: int = 2**20, trace: Trace = TRACE) -> Setup:
    return prepare(
        trace,
        model=MODEL,
        gpu=host_device(open_machine("cpu")),
        policy=policy,
        max_num_seqs=4,
        max_num_batched_tokens=32,
        kv_cache_memory=memory,
    )


def outputs(given: Setup) -> Outputs:
    machine = open_machine("cpu")
    executor = Executor(given, machine, random_llama(MODEL, machine))
    assert executor.cache.nbytes == executor.predicted_bytes
    for pool in executor.cache.pools:
        if pool.storage == "native":
            pool.k.fill_(float("nan"))
            pool.v.fill_(float("nan"))
    assembled = executor.fresh()
    found = Outputs(assembled)
    free_run(
        serve(given.trace, assembled.scheduler, Recorder(given.trace, 1.0)),
        assembled.scheduler,
        found,
    )
    return found


@pytest.mark.parametrize(
    "policy",
    [
        "paging:block_size=8",
        "chunked:chunk_tokens=64",
        "paging:block_size=8+prefix",
        "paging:block_size=8+sliding_window:window=124,sinks=4",
        "preallocation:reserve=pow2",
        "preallocation:reserve=oracle,allocator=buddy",
        "growing:start=4",
        "growing:start=16,step=8",
    ],
)
def test_layouts_give_equal_outputs(policy: str) -> None:
    expected, found = outputs(setup("preallocation")), outputs(setup(policy))
    assert len(expected.logits) == len(found.logits) > 40
    for x, y in zip(expected.logits, found.logits, strict=True):
        assert torch.allclose(x, y, atol=1e-4, rtol=1e-4)
    assert (found.moved > 0) == policy.startswith("growing")


def test_selected_pages() -> None:
    """All pages selected is full attention; few are not."""
    expected = outputs(setup("preallocation")).logits
    every = outputs(setup("paging:block_size=8+top_k:k=128,page=8")).logits
    few = outputs(setup("paging:block_size=8+top_k:k=16,page=8")).logits
    assert all(
        torch.allclose(x, y, atol=1e-4, rtol=1e-4) for x, y in zip(expected, every, strict=True)
    )
    differ = [not torch.allclose(x, y, atol=1e-2) for x, y in zip(expected, few, strict=True)]
    assert any(differ)
    assert not differ[0]  # a first chunk sees all that is there


def test_shared_prefixes_are_read_where_others_wrote_them() -> None:
    count, blocks = 4, 5
    same = PrefixBlocks(8, np.arange(count + 1) * blocks, np.tile(np.arange(blocks), count))
    ones = np.ones(count, dtype=np.int64)
    trace = Trace("same", np.arange(count) * 0.1, 40 * ones, 3 * ones, Provenance("test", 0), same)
    found = outputs(setup("paging:block_size=8+prefix", trace=trace))
    (first, *_), *later = found.chunks.values()
    assert [chunk.start for chunk, _ in later[0]] == [32]  # the last block is always computed
    assert len(later) == count - 1
    for ((chunk, slots),) in later:
        assert (chunk.start, chunk.tokens) == (32, 8)
        assert slots[:32].tolist() == first[1][:32].tolist()
        assert torch.isfinite(torch.cat(found.logits)).all()
