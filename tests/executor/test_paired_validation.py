"""Rounds are judged by their own errors, and what predicts a run is measured while it runs."""

from typing import cast

import pytest

from executor.device.assemble import Executor, host_device, random_llama
from executor.device.base import NullDevice
from executor.device.machine import open_machine
from executor.validation.calibrate import Calibration
from executor.validation.judge import judge
from executor.validation.validate import PAUSE_S, SLICE_AS, Costs, PausedDevice
from executor.work import Work
from sim.cost.roofline import FixedStep
from sim.plan import AS_PER_S, StepPlan
from sim.run.simulation import Setup, prepare
from tests.executor.test_policies_agree import MODEL, TRACE


def error(pairs: list[tuple[float | None, float | None]], tolerance: float = 10.0) -> object:
    row = judge("p", "n", "l", "s", pairs, tolerance)
    return row.error_percent, row.passed


def test_each_round_is_judged_by_its_own_error() -> None:
    # The machine slows to half: predictions follow, and only the last round is off.
    pairs: list[tuple[float | None, float | None]] = [(10.0, 10.0), (15.0, 15.0), (20.0, 25.0)]
    assert error(pairs) == (0.0, True)
    row = judge("p", "n", "l", "s", pairs, 10.0)
    assert (row.predicted, row.measured) == (15.0, 15.0)
    assert row.spread_percent == pytest.approx(100.0)
    assert error([(9.0, 10.0), (18.0, 20.0), (40.0, 40.0)], 5.0) == (-10.0, False)


def test_what_neither_side_defines_is_not_judged() -> None:
    assert error([(None, None), (None, None)]) == (None, None)
    assert error([(1.0, None)]) == (None, False)
    assert error([(1.0, 0.0)]) == (None, False)
    assert error([(0.0, 0.0)]) == (0.0, True)


def test_pauses_come_after_slices_of_work_and_take_no_time() -> None:
    class Counting:
        pauses = 0

        def pause(self) -> None:
            self.pauses += 1

    costs = Counting()
    step_as = SLICE_AS // 4
    device = PausedDevice(NullDevice(FixedStep(step_as / AS_PER_S, "test")), cast(Costs, costs))
    plan = StepPlan(0, 1, 1, 1, 1, 1, 0, (), (), (), ())
    assert [device.run(plan, Work((), (), ())) for _ in range(12)] == [step_as] * 12
    assert costs.pauses == 3


def test_rounds_hold_every_point() -> None:
    machine = open_machine("cpu")
    setup: Setup = prepare(
        TRACE,
        model=MODEL,
        gpu=host_device(machine),
        policy="paging:block_size=8",
        max_num_seqs=4,
        max_num_batched_tokens=32,
        kv_cache_memory=2**20,
    )
    llama = random_llama(MODEL, machine)
    calibration = Calibration([Executor(setup, machine, llama)], machine, llama)
    calibration.spend(PAUSE_S)
    first = calibration.round()
    assert first.elapsed_s >= PAUSE_S
    assert all(seconds > 0 for seconds in first.seconds.values())
    table = calibration.table([first])
    assert table.sections[0].policy == setup.label
    assert table.elapsed_s == first.elapsed_s
    second = calibration.round()
    assert second.seconds.keys() == first.seconds.keys()
    assert second.seconds != first.seconds
