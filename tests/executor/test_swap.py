"""KV on the host and back: nothing is computed again, and nobody's tokens change."""

from dataclasses import replace

import pytest
import torch

from executor.device.assemble import Assembled, Executor, random_llama
from executor.device.machine import open_machine
from executor.driver import free_run
from executor.work import Work
from sim.engine.limits import Pressure
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.plan import StepPlan
from sim.run.simulation import Setup
from tests.executor.test_policies_agree import setup

TOKEN = 2 * 2 * 2 * 16 * 4  # bytes: K and V of 2 layers with 2 heads of 16 in 32 bits


class Spoken:
    """A device that keeps the logits of each request's tokens, and what swapping moved."""

    def __init__(self, assembled: Assembled) -> None:
        self._assembled = assembled
        self.logits: dict[int, list[torch.Tensor]] = {}
        self.prefilled: dict[int, int] = {}
        self.preempted: list[int] = []
        self.out_bytes = self.in_bytes = 0

    def run(self, plan: StepPlan, work: Work) -> int:
        device = self._assembled.device
        device.run(plan, work)  # which holds bytes moved against those planned
        device.table.check(self._assembled.scheduler.manager)
        samplers = [c.request for c in work.chunks if c.last] + [d.request for d in work.decodes]
        assert device.last is not None
        for request, row in zip(samplers, device.last.logits, strict=True):
            self.logits.setdefault(request, []).append(row)
        for chunk in work.chunks:
            done = self.prefilled.get(chunk.request, 0)
            self.prefilled[chunk.request] = done + chunk.tokens
        self.preempted += plan.preempted
        self.out_bytes += plan.swap_out_bytes
        self.in_bytes += plan.swap_in_bytes
        return 10**15


def spoken(given: Setup) -> Spoken:
    machine = open_machine("cpu")
    executor = Executor(given, machine, random_llama(given.model, machine))
    assembled = executor.fresh()
    found = Spoken(assembled)
    recorder = Recorder(given.trace, 1.0)
    free_run(serve(given.trace, assembled.scheduler, recorder), assembled.scheduler, found)
    return found


@pytest.mark.parametrize(
    ("policy", "slots"), [("paging:block_size=8", 112), ("growing:start=4", 200)]
)
def test_recomputed_requests_say_what_they_would_have_said(policy: str, slots: int) -> None:
    """What is computed again after a preemption is the prompt and what was chosen behind it."""
    roomy, pressed = spoken(setup(policy)), spoken(setup(policy, memory=slots * TOKEN))
    assert sum(pressed.prefilled.values()) > sum(roomy.prefilled.values())
    same(roomy, pressed, 1e-4)


def same(a: Spoken, b: Spoken, tolerance: float) -> None:
    assert a.logits.keys() == b.logits.keys()
    for request, rows in a.logits.items():
        found = b.logits[request]
        assert len(found) == len(rows)
        for x, y in zip(rows, found, strict=True):
            assert torch.allclose(x, y, atol=tolerance, rtol=tolerance)


def tight(policy: str, slots: int) -> Setup:
    """Room for so many tokens, and a host that takes whatever has none."""
    given = setup(policy, memory=slots * TOKEN)
    return replace(given, limits=replace(given.limits, pressure=Pressure("swap", 1 << 30)))


@pytest.mark.parametrize(
    ("policy", "slots"),
    [
        ("paging:block_size=8", 112),
        ("paging:block_size=1", 110),
        ("chunked:chunk_tokens=16", 112),
        ("paging:block_size=8+prefix", 112),
        ("growing:start=4", 200),
        ("paging:block_size=8+int8:scale=fp16", 112 * 18 // 64),
        ("paging:block_size=8+top_k:k=128,page=8", 128),
        ("paging:block_size=8+sliding_window:window=28,sinks=4", 72),
    ],
)
def test_swapped_requests_say_what_they_would_have_said(policy: str, slots: int) -> None:
    roomy, swapped = spoken(setup(policy)), spoken(tight(policy, slots))
    assert swapped.out_bytes > 0
    assert swapped.in_bytes > 0
    same(roomy, swapped, 2e-2 if "int8" in policy else 1e-4)
    for request in roomy.logits:
        # None is computed a second time; the newest token, when it returns, is a chunk of its own.
        more = swapped.prefilled[request] - roomy.prefilled[request]
        assert more <= swapped.preempted.count(request)
