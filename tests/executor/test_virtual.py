"""`virtual` on a CPU: contiguous addresses are reserved, memory is there as planned, says Linux."""

import sys
from dataclasses import replace

import pytest
import torch

from executor.cache.reserved import Reserved
from executor.cache.virtual import Virtual
from executor.device.assemble import Executor, random_llama
from executor.device.machine import open_machine
from executor.driver import free_run
from executor.work import Decode, Work
from sim.engine.limits import Pressure
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.model.hf_config import model_from_config
from sim.plan import Chunk, StepPlan
from sim.policy.virtual import VirtualPages
from sim.run.simulation import Setup, prepare
from tests.executor.test_policies_agree import TRACE, outputs, setup
from tests.executor.test_swap import same, spoken

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mincore(2) is Linux's")

PAGE = 64 * 1024
VECTOR = 2 * 16 * 4  # bytes: K or V of a token in a layer; four tensors
WIDE = model_from_config(
    {
        "model_type": "llama",
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 6,
        "head_dim": 200,
        "intermediate_size": 32,
        "vocab_size": 101,
        "max_position_embeddings": 128,
        "dtype": "float32",
    },
    "wide",
    "test",
)
"""A token takes 4,800 B in each tensor: contexts of 14, 28, 41... tokens need a page more."""


def wide(policy: str, pages: int, pressure: Pressure | None = None) -> Setup:
    given = prepare(
        TRACE,
        model=WIDE,
        gpu="h100",
        policy=policy,
        max_num_seqs=4,
        max_num_batched_tokens=32,
        kv_cache_memory=pages * PAGE,
    )
    limits = replace(given.limits, pressure=pressure or given.limits.pressure)
    return replace(given, limits=limits)


def test_outputs_are_those_of_preallocation() -> None:
    expected = outputs(setup("preallocation")).logits
    found = virtual_outputs(setup("virtual"))
    for x, y in zip(expected, found, strict=True):
        assert torch.allclose(x, y, atol=1e-4, rtol=1e-4)


def virtual_outputs(given: Setup) -> list[torch.Tensor]:
    return Resident(given).logits


class Resident:
    """A run, in which after every step the system is asked what is in memory."""

    def __init__(self, given: Setup) -> None:
        machine = open_machine("cpu")
        executor = Executor(given, machine, random_llama(given.model, machine))
        assert executor.allocated_bytes == executor.predicted_bytes
        scheduler, self.device = executor.fresh()
        self.manager = scheduler.manager
        self.logits: list[torch.Tensor] = []
        self.resident: list[int] = []
        self.preempted = 0
        recorder = Recorder(given.trace, 1.0)
        free_run(serve(given.trace, scheduler, recorder), scheduler, self)

    def run(self, plan: StepPlan, work: Work) -> int:
        self.device.run(plan, work)
        table = self.device.table
        table.check(self.manager)
        memory = self.manager.memory()
        counted = self.manager.pool.capacity_bytes - memory.free - memory.external
        assert table.resident_bytes() == counted
        assert self.device.last is not None
        self.logits.append(self.device.last.logits)
        self.resident.append(counted)
        self.preempted += len(plan.preempted)
        return 10**15


@pytest.mark.parametrize("policy", ["virtual", "virtual:page_kib=128"])
def test_the_system_counts_what_was_planned(policy: str) -> None:
    found = Resident(wide(policy, 96))
    assert max(found.resident) > 40 * PAGE
    assert len(set(found.resident)) > 5


def test_under_pressure() -> None:
    found = Resident(wide("virtual", 48))
    assert found.preempted > 0


def test_rings() -> None:
    """30 tokens of 4,800 B are three pages of each of six tensors, and never more."""
    found = Resident(wide("virtual+sliding_window:window=26,sinks=4", 96))
    assert 3 * 6 * 3 * PAGE < max(found.resident) <= 4 * 6 * 3 * PAGE


def test_swapped_requests_say_what_they_would_have_said() -> None:
    roomy, swapped = (
        spoken(wide("virtual", 400)),
        spoken(wide("virtual", 48, Pressure("swap", 2**30))),
    )
    assert swapped.out_bytes > 0
    assert swapped.in_bytes > 0
    same(roomy, swapped, 1e-4)


def test_by_hand() -> None:
    """Six tensors of 4,800 B a token: 13 tokens in 62,400 B are a page each, 14 are two."""
    given = wide("virtual", 96)
    manager = given.policy.manager(given.pool)
    assert isinstance(manager, VirtualPages)
    table = Virtual(manager, None)
    memory = table.backing = Reserved(table)
    assert memory.resident_bytes() == 0
    for work, pages in (
        (Work((), (Chunk(0, 0, 13, True),), ()), 6),
        (Work((), (), (Decode(0, 14),)), 12),
        (Work((), (Chunk(1, 0, 28, True),), (Decode(0, 15),)), 12 + 18),
        (Work((0,), (), (Decode(1, 29),)), 18),
        (Work((1,), (), ()), 0),
    ):
        table.follow(work)
        assert memory.resident_bytes() == table.held_bytes(0) == pages * PAGE
