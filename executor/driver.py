"""The engine's effects on a device: free run schedules by measured times, lockstep by a log's."""

from collections.abc import Iterator

from executor.device.base import Device
from executor.plan_log import Logged, single
from executor.work import work_of
from sim.engine.loop import Effects
from sim.engine.scheduler import Scheduler
from sim.plan import Done, Sleep


def free_run(effects: Effects, scheduler: Scheduler, device: Device) -> None:
    """Let the engine schedule for itself on the time that its steps take.

    The clock is virtual: it advances by each step's measured time, and where nothing runs it jumps
    to the next arrival, so idle time costs nothing.
    """
    now = 0
    effect = next(effects, None)
    while effect is not None:
        if isinstance(effect, Sleep):
            now = effect.until_as
            done = Done(now)
        else:
            took = device.run(effect.plan, work_of(effect.plan, scheduler))
            now += took
            done = Done(now, 1, took)
        try:
            effect = effects.send(done)
        except StopIteration:
            return


def lockstep(
    effects: Effects, scheduler: Scheduler, device: Device, log: Iterator[Logged]
) -> list[int]:
    """Replay a log of single steps: its clock decides, the device runs and measures each step.

    Returns the measured times in attoseconds. Raises AssertionError where the engine decides other
    than the log says: then trace, policy or limits are not those it was recorded with.
    """
    now = 0
    measured: list[int] = []
    effect = next(effects, None)
    while effect is not None:
        if isinstance(effect, Sleep):
            now = effect.until_as
            done = Done(now)
        else:
            expected = next(log)
            assert single(effect.plan) == expected.plan, (effect.plan, expected.plan)
            measured.append(device.run(effect.plan, work_of(effect.plan, scheduler)))
            now += expected.first_as
            done = Done(now, 1, expected.first_as)
        try:
            effect = effects.send(done)
        except StopIteration:
            break
    assert next(log, None) is None, "the log goes on after the last plan"
    return measured
