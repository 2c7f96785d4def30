"""The rows of a trace that a compiled run has before it: requests inside, and some to come.

It slides: what has left for good, up to the first that hasn't, makes room for rows to come. Where
more than half of it is inside, it doubles.
"""

import numpy as np
from numpy.typing import NDArray

from sim.engine.requests import nanoseconds
from sim.plan import AS_PER_S
from sim.run.compiled.build import FIELDS
from sim.run.compiled.kinds import UNSET
from sim.run.compiled.state import State
from workloads.schema import Trace

SLOTS = 1 << 15
"""Requests that are there at once, at first."""

Ints = NDArray[np.int64]


class Window:
    """Which rows lie in which slots of a state."""

    def __init__(self, state: State, trace: Trace) -> None:
        self.begin = 0  # rows before it are settled
        self.end = 0  # rows before it are, or were, in slots
        self._state, self._trace = state, trace
        self._slots: Ints = np.empty(0, np.int64)  # of rows begin to end
        self._free: Ints = np.arange(state.slots)
        self._blank = np.zeros(len(FIELDS), np.int64)
        for name in UNSET:
            self._blank[FIELDS.index(name)] = -1
        state["arrivals_last_ns"] = -1
        self.load()

    @property
    def arrived(self) -> int:
        """Rows that have come."""
        return self.end - self._state["arrivals_rows"] + self._state["arrivals_row"]

    def settled(self) -> Ints:
        """Slots of the rows from `begin` on that have left or were refused, up to the first that
        hasn't."""
        slots = self._slots[: self.arrived - self.begin]
        state = self._state
        gone = (state.of("finish_s")[slots] >= 0) | (state.of("output")[slots] == 0)
        return slots if gone.all() else slots[: int(gone.argmin())]

    def all(self) -> Ints:
        """Slots of all rows from `begin` on."""
        return self._slots

    def free(self, count: int) -> None:
        """The first rows have been taken note of."""
        self._free = np.concatenate([self._free, self._slots[:count]])
        self._slots = self._slots[count:]
        self.begin += count

    def load(self) -> None:
        """Rows into all free slots, of which there are at least half."""
        state = self._state
        if 2 * len(self._free) < state.slots:
            before = state.slots
            state.widen(2 * before)
            self._free = np.concatenate([self._free, np.arange(before, 2 * before)])
        count = min(len(self._free), len(self._trace) - self.end)
        rows, slots = slice(self.end, self.end + count), self._free[:count]
        self._free, self._slots = self._free[count:], np.concatenate([self._slots, slots])
        self.end += count
        trace, requests = self._trace, state.requests
        arrival_ns = nanoseconds(trace.arrival_s[rows])
        requests[slots] = self._blank
        for name, values in (
            ("row", np.arange(rows.start, rows.stop)),
            ("arrival_ns", arrival_ns),
            ("prompt", trace.prompt_tokens[rows]),
            ("target", trace.prompt_tokens[rows]),
            ("output", trace.output_tokens[rows]),
        ):
            requests[slots, FIELDS.index(name)] = values
        self._feed(slots)
        if count:
            state["arrivals_last_ns"] = int(arrival_ns[-1])
        if self.end == len(trace):
            state["arrivals_last_ns"] = -1

    def _feed(self, slots: Ints) -> None:
        """Let them come after those at hand that haven't come yet."""
        state, feed = self._state, self._state.feed()
        left = feed[state["arrivals_row"] : state["arrivals_rows"]].copy()
        count = len(left) + len(slots)
        feed[: len(left)] = left
        feed[len(left) : count] = slots + state.first
        state["arrivals_row"], state["arrivals_rows"] = 0, count
        state["arrivals_next_as_s"], state["arrivals_next_as_a"] = 2**62, 0
        if count:
            ns = int(state.of("arrival_ns")[feed[0] - state.first])
            state["arrivals_next_as_s"], rest = divmod(ns, 10**9)
            state["arrivals_next_as_a"] = rest * (AS_PER_S // 10**9)
