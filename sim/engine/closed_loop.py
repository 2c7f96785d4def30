"""A closed loop: users who wait for their answers before they ask again."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from sim.engine.record import Recorder
from sim.engine.requests import AS_PER_NS, NEVER, rows_of
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S
from sim.sequence import Sequence
from workloads.schema import Trace


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """So many users, each with one request at a time: ask, wait for the answer, think, ask again.

    The trace's rows, or its sessions whole, are handed out in order, each to the user who is ready
    first. Users think before their first request, too. Without think time this is a fixed number
    of requests in flight, what `vllm bench serve --max-concurrency` keeps.
    """

    users: int
    think_s: float = 0.0  # the mean, if it is random
    exponential: bool = False  # think times are drawn, else all are equal
    paced: bool = False  # and no request is sent before its stamp
    seed: int = 0

    def think_as(self) -> Callable[[], int]:
        """Think times in attoseconds, one a call."""
        if not self.exponential:
            every = round(self.think_s * AS_PER_S)
            return lambda: every
        draw = np.random.default_rng(self.seed).exponential
        return lambda: round(draw(self.think_s) * AS_PER_S)


class Users:
    """A fixed number of users who hand out the trace's rows in order."""

    def __init__(self, trace: Trace, loop: ClosedLoop) -> None:
        self._rows = rows_of(trace)
        self._next = next(self._rows, None)
        self._think = loop.think_as()
        self._paced = loop.paced
        self._ready: list[int] = []  # when each user who isn't waiting for an answer will ask
        for _ in range(min(loop.users, len(trace))):
            heappush(self._ready, self._think())
        self._look()

    def _look(self) -> None:
        self.next_as = NEVER
        if self._next and self._ready:
            stamp = self._next[1] * AS_PER_NS if self._paced else 0
            self.next_as = max(stamp, self._ready[0])

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        while self._next and self.next_as <= now:
            row, _, prompt, wanted, prefix = self._next
            arrival = self.next_as
            heappop(self._ready)
            recorder.asked(row, arrival)
            if output := scheduler.servable(prompt, wanted):
                scheduler.waiting.append(Sequence(row, arrival, prompt, output, prefix))
            else:
                recorder.refused(row)
                heappush(self._ready, arrival + self._think())
            self._next = next(self._rows, None)
            self._look()

    def answered(self, now: int, left: list[Sequence]) -> None:
        for _ in left:
            heappush(self._ready, now + self._think())
        self._look()
