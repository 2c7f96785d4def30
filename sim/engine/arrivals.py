"""Who asks when: rows as stamped, rows that wait for the answers of others, or a number of users.

An open loop asks at the trace's own stamps, whatever the engine does. A closed loop waits for
answers: `Sessions` replays who waited for whom, `Users` keeps so many people asking. The loop only
sees the next instant, and tells whose requests have left.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain, repeat
from typing import Protocol

import numpy as np

from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S
from sim.sequence import Sequence
from workloads.schema import Floats, Ints, PrefixBlocks, Trace, Turns

AS_PER_NS = 10**9
NEVER = 2**127  # later than any clock will say

Row = tuple[int, int, int, int, tuple[int, list[int]] | None]  # with the arrival in nanoseconds


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """So many users, each with one request at a time: ask, wait for the answer, think, ask again.

    The trace's rows are handed out in order, each to the user who is ready first. Users think
    before their first request, too. Without think time this is a fixed number of requests in
    flight, what `vllm bench serve --max-concurrency` keeps.
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


class Arrivals(Protocol):
    """What the loop asks."""

    next_as: int
    """The next instant at which a request will come, as far as is known now; else NEVER."""

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        """Queue or refuse all that have arrived by now, earliest first."""

    def answered(self, now: int, left: list[Sequence]) -> None:
        """These requests have left the engine at `now`; who waited for them may ask."""


def arrivals_of(trace: Trace, loop: ClosedLoop | None) -> Arrivals:
    """The process that the trace and the options describe."""
    if loop is not None:
        return Users(trace, loop)
    if trace.turns is not None:
        return Sessions(trace, trace.turns)
    return Stamped(trace)


class Stamped:
    """The trace's rows at their stamps, to the nanosecond."""

    def __init__(self, trace: Trace) -> None:
        self._rows = chain.from_iterable(_slices(trace))
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


class Users:
    """A fixed number of users who hand out the trace's rows in order."""

    def __init__(self, trace: Trace, loop: ClosedLoop) -> None:
        self._rows = chain.from_iterable(_slices(trace))
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


class Sessions:
    """Rows that follow others: each is asked when all it waits for are answered, and some time has
    passed in which a person thinks or a tool runs. The others come at their stamps."""

    def __init__(self, trace: Trace, turns: Turns) -> None:
        waits = np.diff(turns.offsets)
        self._trace = trace
        self._delays = turns.delay_s
        self._missing = waits.tolist()  # answers that each row still waits for
        self._followers: list[list[int]] = [[] for _ in range(len(trace))]
        followers = np.repeat(np.arange(len(trace)), waits).tolist()
        for row, parent in zip(followers, turns.after.tolist(), strict=True):
            self._followers[parent].append(row)
        stamped = np.flatnonzero(waits == 0)
        stamps = nanoseconds(trace.arrival_s[stamped]).tolist()
        # (instant, row): of one instant, the trace's order decides
        self._due = [
            (ns * AS_PER_NS, row) for ns, row in zip(stamps, stamped.tolist(), strict=True)
        ]
        heapify(self._due)
        self.next_as = self._due[0][0] if self._due else NEVER

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        while self.next_as <= now:
            arrival, index = heappop(self._due)
            trace = self._trace
            prompt, wanted = int(trace.prompt_tokens[index]), int(trace.output_tokens[index])
            recorder.asked(index, arrival)
            if output := scheduler.servable(prompt, wanted):
                prefix = None if trace.prefix is None else prompt_blocks(trace.prefix, index)
                scheduler.waiting.append(Sequence(index, arrival, prompt, output, prefix))
            else:
                recorder.refused(index)
                self._answer(index, arrival)
            self.next_as = self._due[0][0] if self._due else NEVER

    def answered(self, now: int, left: list[Sequence]) -> None:
        for seq in left:
            self._answer(seq.index, now)
        self.next_as = self._due[0][0] if self._due else NEVER

    def _answer(self, index: int, now: int) -> None:
        for row in self._followers[index]:
            self._missing[row] -= 1
            if not self._missing[row]:
                heappush(self._due, (now + round(self._delays[row] * AS_PER_S), row))


def nanoseconds(seconds: Floats) -> Ints:
    """Arrivals are counted in whole ones."""
    return (seconds * 1e9).round().astype(np.int64)


def prompt_blocks(prefix: PrefixBlocks, row: int) -> tuple[int, list[int]]:
    """A request's published block size and ids."""
    start, end = prefix.offsets[row], prefix.offsets[row + 1]
    return prefix.block_tokens, prefix.ids[start:end].tolist()


def _slices(trace: Trace) -> Iterator[Iterator[Row]]:
    """Rows by the thousand: a long trace is never there as Python's numbers all at once."""
    blocks = trace.prefix
    for start in range(0, len(trace), 1000):
        part = slice(start, start + 1000)
        arrivals_ns = nanoseconds(trace.arrival_s[part]).tolist()
        prompts, outputs = trace.prompt_tokens[part].tolist(), trace.output_tokens[part].tolist()
        rows = range(start, start + len(prompts))
        found = (prompt_blocks(blocks, row) for row in rows) if blocks else repeat(None)
        yield zip(rows, arrivals_ns, prompts, outputs, found, strict=False)
