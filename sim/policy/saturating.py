"""The sum of min(length, cap) over sequences that grow together, in O(log n) a change."""

from heapq import heappop, heappush


class SaturatingSum:
    """Lengths that all grow by one a tick and stop counting at `cap`.

    `total` is the sum of min(length, cap), `growing` how many are still below the cap.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.total = 0
        self.growing = 0
        self._ends: dict[int, int] = {}  # tick at which so many sequences reach the cap
        self._order: list[int] = []  # those ticks, a heap

    def add(self, length: int, tick: int) -> None:
        """A sequence of that length joins at that tick."""
        if length >= self.cap:
            self.total += self.cap
            return
        self.total += length
        self.growing += 1
        end = tick + self.cap - length
        if end in self._ends:
            self._ends[end] += 1
        else:
            self._ends[end] = 1
            heappush(self._order, end)

    def remove(self, length: int, tick: int) -> None:
        """A sequence that now has that length leaves."""
        if length >= self.cap:
            self.total -= self.cap
            return
        self.total -= length
        self.growing -= 1
        self._ends[tick + self.cap - length] -= 1

    def linear_for(self, tick: int) -> int | None:
        """Ticks for which `growing` stays what it is; None: for ever."""
        order, ends = self._order, self._ends
        while order and not ends[order[0]]:
            del ends[heappop(order)]
        return order[0] - tick if order else None

    def advance(self, steps: int, tick: int) -> None:
        """`steps` ticks pass, and it is `tick` now."""
        self.total += steps * self.growing
        order, ends = self._order, self._ends
        while order and order[0] <= tick:
            end = heappop(order)
            count = ends.pop(end)
            self.total -= count * (tick - end)
            self.growing -= count
