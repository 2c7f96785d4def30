"""Who is due at which tick."""

from heapq import heappop, heappush
from sys import maxsize

from sim.sequence import Sequence


class Calendar:
    """At most one tick for each sequence. A heap of ticks, and who is due by tick."""

    def __init__(self) -> None:
        self._tick: dict[int, int] = {}  # by request
        self._due: dict[int, dict[int, Sequence]] = {}  # by tick, then by request
        self._order: list[int] = []  # a heap of the keys of `_due`

    def expect(self, seq: Sequence, tick: int) -> None:
        """The sequence, of which no tick is known, is due at that one."""
        self._tick[seq.index] = tick
        if tick not in self._due:
            self._due[tick] = {}
            heappush(self._order, tick)
        self._due[tick][seq.index] = seq

    def forget(self, seq: Sequence) -> None:
        """It isn't due any more, if it was."""
        if seq.index in self._tick:
            del self._due[self._tick.pop(seq.index)][seq.index]

    def next(self) -> int:
        """The next tick at which somebody is due; `maxsize` if there is none."""
        order, due = self._order, self._due
        while order and not due[order[0]]:
            del due[heappop(order)]
        return order[0] if order else maxsize

    def at(self, tick: int) -> list[Sequence]:
        """Who is due at that tick, in the order of the trace."""
        due = self._due.get(tick)
        return [due[index] for index in sorted(due)] if due else []
