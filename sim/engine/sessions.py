"""Sessions: requests that follow the answers to others, as in conversations and agents."""

from heapq import heapify, heappop, heappush

import numpy as np

from sim.engine.closed_loop import ClosedLoop
from sim.engine.record import Recorder
from sim.engine.requests import AS_PER_NS, NEVER, nanoseconds, prompt_blocks
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S
from sim.sequence import Sequence
from workloads.schema import Trace, Turns


class Sessions:
    """Rows that follow others: each is asked when all it waits for are answered, and some time has
    passed in which a person thinks or a tool runs. The others come at their stamps.

    With users a session begins when one of them is free, in order of the stamps, and what in it
    waits for no answer comes as long after its beginning as it was recorded. The user is free when
    all of its requests are answered, and thinks before the next.
    """

    def __init__(self, trace: Trace, turns: Turns, loop: ClosedLoop | None) -> None:
        waits = np.diff(turns.offsets)
        self._trace = trace
        self._delays = turns.delay_s
        self._missing = waits.tolist()  # answers that each row still waits for
        self._followers: list[list[int]] = [[] for _ in range(len(trace))]
        followers = np.repeat(np.arange(len(trace)), waits).tolist()
        for row, parent in zip(followers, turns.after.tolist(), strict=True):
            self._followers[parent].append(row)
        self._sessions = turns.session.tolist()
        stamped = np.flatnonzero(waits == 0)
        stamps = nanoseconds(trace.arrival_s[stamped]).tolist()
        first: dict[int, list[tuple[int, int]]] = {}  # by session: stamp and row of what just comes
        for stamp, row in zip(stamps, stamped.tolist(), strict=True):
            first.setdefault(self._sessions[row], []).append((stamp * AS_PER_NS, row))
        self._due: list[tuple[int, int]] = []  # (instant, row): of one instant, trace order decides
        self._coming = iter(first.values())
        self._ready: list[int] = []
        self._loop = loop
        if loop is None:
            self._due = [one for rows in self._coming for one in rows]
            heapify(self._due)
        else:
            self._think = loop.think_as()
            self._left = np.bincount(turns.session).tolist()  # unanswered rows of each session
            for _ in range(min(loop.users, len(first))):
                heappush(self._ready, self._think())
        self._next = next(self._coming, None)
        self._look()

    def _look(self) -> None:
        self._begins = NEVER
        if self._next and self._ready:
            paced = self._loop is not None and self._loop.paced
            self._begins = max(self._next[0][0] if paced else 0, self._ready[0])
        self.next_as = min(self._begins, self._due[0][0] if self._due else NEVER)

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        while self.next_as <= now:
            if self._begins == self.next_as:
                self._begin()
            else:
                self._ask(*heappop(self._due), scheduler, recorder)
            self._look()

    def answered(self, now: int, left: list[Sequence]) -> None:
        for seq in left:
            self._answer(seq.index, now)
        self._look()

    def _begin(self) -> None:
        assert self._next
        heappop(self._ready)
        since = self._next[0][0]
        for stamp, row in self._next:
            heappush(self._due, (self._begins + stamp - since, row))
        self._next = next(self._coming, None)

    def _ask(self, arrival: int, index: int, scheduler: Scheduler, recorder: Recorder) -> None:
        trace = self._trace
        prompt, wanted = int(trace.prompt_tokens[index]), int(trace.output_tokens[index])
        recorder.asked(index, arrival)
        if output := scheduler.servable(prompt, wanted):
            prefix = None if trace.prefix is None else prompt_blocks(trace.prefix, index)
            scheduler.waiting.append(Sequence(index, arrival, prompt, output, prefix))
        else:
            recorder.refused(index)
            self._answer(index, arrival)

    def _answer(self, index: int, now: int) -> None:
        for row in self._followers[index]:
            self._missing[row] -= 1
            if not self._missing[row]:
                heappush(self._due, (now + round(self._delays[row] * AS_PER_S), row))
        if self._loop:
            session = self._sessions[index]
            self._left[session] -= 1
            if not self._left[session]:
                heappush(self._ready, now + self._think())
