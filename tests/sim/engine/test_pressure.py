"""Preemption by swap, and who gives way, worked out by hand."""

import numpy as np
import pytest

from sim.engine.limits import Limits, Pressure, Victim
from sim.engine.loop import serve
from sim.engine.record import Log, Recorder
from sim.engine.scheduler import Scheduler
from sim.engine.swap import HostSwap
from sim.hardware import find_device
from sim.memory.ledger import kv_budget
from sim.model.presets import find_model
from sim.plan import AS_PER_S, StepPlan
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.run.driver import run_simulated
from sim.sequence import Sequence
from workloads.errors import InputError
from workloads.schema import Provenance, Trace


class OneSecond:
    """A step takes a second."""

    name = "one"
    constants = ()

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        return AS_PER_S, 0, plan.max_steps


def run(pressure: Pressure, slots: int, block_size: int, *lengths: tuple[int, int]) -> Log:
    """Requests of (prompt, output) at once; a token takes 10 bytes, the host link 100 bytes/s."""
    prompts, outputs = (np.array(column) for column in zip(*lengths, strict=True))
    trace = Trace("made", np.zeros(len(lengths)), prompts, outputs, Provenance("made", 2))
    manager = parse_policy(f"paging:block_size={block_size}").manager(Pool(slots * 10, 10, 64))
    scheduler = Scheduler(manager, Limits(8, 64, 64, pressure=pressure))
    recorder = Recorder(trace, 1.0)
    run_simulated(serve(trace, scheduler, recorder), OneSecond(), host_bytes_per_s=100)
    return recorder.log()


def test_two_requests_swap_where_they_would_recompute() -> None:
    """8 + 6 tokens twice in 18 slots. Step 1 prefills both, step 2 decodes both: 18 slots.

    Then the second, with 9 tokens of KV, gives way: 90 bytes are 0.9 s. The first decodes alone
    in steps 3 to 6. Step 7 brings 90 bytes back and decodes; 8 to 10 are the rest of the six.
    """
    log = run(Pressure("swap", 1000), 18, 1, (8, 6), (8, 6))
    assert log.requests["finish_s"].tolist() == pytest.approx([6.9, 11.8])
    assert log.requests["recomputed_tokens"].tolist() == [0, 0]
    assert log.requests["swapped_bytes"].tolist() == [0, 180]
    assert log.requests["preemptions"].tolist() == [0, 1]
    assert log.steps["swap_out_bytes"].sum() == log.steps["swap_in_bytes"].sum() == 90


def test_a_host_without_room_means_recomputing() -> None:
    log = run(Pressure("swap", 89), 18, 1, (8, 6), (8, 6))
    assert log.requests["recomputed_tokens"].tolist() == [0, 9]
    assert log.requests["swapped_bytes"].tolist() == [0, 0]


def test_blocks_move_whole() -> None:
    """Two prompts of 6 take the four blocks of 4; for a ninth token the second's 8 are moved."""
    log = run(Pressure("swap", 1000), 16, 4, (6, 8), (6, 8))
    assert log.requests["swapped_bytes"].tolist() == [0, 2 * 2 * 40]


def test_seven_tokens_move_as_two_blocks_of_four() -> None:
    manager = parse_policy("paging:block_size=4").manager(Pool(160, 10, 64))
    assert manager.transfer_bytes(7) == 80


@pytest.mark.parametrize(("victim", "preempted"), [("last", 2), ("longest", 1), ("shortest", 0)])
def test_who_gives_way(victim: Victim, preempted: int) -> None:
    """Prompts of 4, 8 and 6 tokens fill 21 slots after one step each."""
    log = run(Pressure(victim=victim), 21, 1, (4, 4), (8, 4), (6, 4))
    assert np.flatnonzero(log.requests["preemptions"]).tolist() == [preempted]


@pytest.mark.parametrize(
    ("model", "blocks"), [("llama-3-8b", 2048), ("phi-2", 819), ("llama-2-7b", 512)]
)
def test_blocks_in_4_gib_of_host_memory(model: str, blocks: int) -> None:
    """As vLLM V0 logged for its default swap space."""
    pool = kv_budget(find_model(model), find_device("h100")).pool(2048)
    manager = parse_policy("paging:block_size=16").manager(pool)
    swap = HostSwap(4 << 30)
    stored = 0
    while True:
        seq = Sequence(stored, 0, 16, 1)
        seq.lost = 16
        swap.store(seq, manager.transfer_bytes(16))
        if not seq.swapped:
            break
        stored += 1
    assert stored == blocks


def test_swapping_needs_room_on_the_host() -> None:
    with pytest.raises(InputError, match="swap-space"):
        Pressure("swap", 0)
