"""Who asks when: rows as stamped, rows that wait for the answers of others, or a number of users.

An open loop asks at the trace's own stamps, whatever the engine does. A closed loop waits for
answers. The loop only sees the next instant, and tells whose requests have left.
"""

from typing import Protocol

from sim.engine.closed_loop import ClosedLoop, Users
from sim.engine.record import Recorder
from sim.engine.requests import AS_PER_NS, NEVER, rows_of
from sim.engine.scheduler import Scheduler
from sim.engine.sessions import Sessions
from sim.sequence import Sequence
from workloads.schema import Trace


class Arrivals(Protocol):
    """What the loop asks."""

    next_as: int
    """The next instant at which a request will come, as far as is known now; else NEVER."""

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        """Queue or refuse all that have arrived by now, earliest first."""

    def answered(self, now: int, left: list[Sequence]) -> None:
        """These requests have left the engine at `now`; who waited for them may ask."""


def arrivals_of(trace: Trace, loop: ClosedLoop | Arrivals | None) -> Arrivals:
    """The process that the trace and the options describe, or the one that is given."""
    if loop is not None and not isinstance(loop, ClosedLoop):
        return loop
    if trace.turns is not None:
        return Sessions(trace, trace.turns, loop)
    return Stamped(trace) if loop is None else Users(trace, loop)


class Stamped:
    """The trace's rows at their stamps, to the nanosecond."""

    def __init__(self, trace: Trace) -> None:
        self._rows = rows_of(trace)
        self._next = next(self._rows, None)
        self.next_as = self._next[1] * AS_PER_NS if self._next else NEVER

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        coming, arrival, rows = self._next, self.next_as, self._rows
        while coming and arrival <= now:
            row, _, prompt, wanted, prefix = coming
            if output := scheduler.servable(prompt, wanted):
                scheduler.waiting.append(Sequence(row, arrival, prompt, output, prefix))
            else:
                recorder.refused(row)
            coming = next(rows, None)
            arrival = coming[1] * AS_PER_NS if coming else NEVER
        self._next, self.next_as = coming, arrival

    def answered(self, now: int, left: list[Sequence]) -> None:
        """Nobody waits for anyone."""
