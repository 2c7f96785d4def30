"""Contiguous addresses for each sequence, and pages behind them as it grows."""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple, Protocol

from executor.cache.contiguous import Contiguous
from executor.cache.ring import Ring
from executor.cache.table import Table
from executor.work import Work
from sim.policy.virtual import VirtualPages


class Backing(Protocol):
    """Memory in which every sequence's addresses are reserved, in each tensor, at its seat."""

    def commit(self, seat: int, first: int, last: int) -> None:
        """Pages [first, last) of the seat in every tensor get memory."""
        ...

    def give_back(self, seat: int, last: int) -> None:
        """The seat's first `last` pages in every tensor have none any more."""
        ...

    def resident_bytes(self) -> int:
        """What the operating system says is in memory."""
        ...


class _Seated(NamedTuple):
    seat: int
    pages: int  # in each tensor


class Virtual(Contiguous):
    """A unit is a seat: addresses for the longest context. Memory is counted in pages of tensors.

    What physical memory there is, `backing` holds; without one ids are followed alone.
    """

    def __init__(self, manager: VirtualPages, ring: Ring | None) -> None:
        ((self.vector_bytes, self.tensors),) = manager.tensors.items()
        self.page_bytes = manager.page_bytes
        self.page_count = manager.units  # of all tensors
        longest = manager.pool.max_len if ring is None else ring.slots
        whole = self.page_bytes // gcd(self.page_bytes, self.vector_bytes)  # tokens in whole pages
        seats = -(-self.page_count // self.tensors)
        super().__init__(seats, -(-longest // whole) * whole, ring)
        self._manager = manager
        self._seated: dict[int, _Seated] = {}
        self.backing: Backing | None = None

    def pages_for(self, tokens: int) -> int:
        """Pages of a context in each tensor."""
        return -(-self.kept_tokens(tokens) * self.vector_bytes // self.page_bytes)

    def fits(self, lengths: Sequence[int]) -> bool:
        pages = self.tensors * sum(self.pages_for(length) for length in lengths)
        return pages <= self.page_count and super().fits(lengths)

    def held_bytes(self, token_bytes: int) -> int:
        pages = sum(seated.pages for seated in self._seated.values())
        return pages * self.tensors * self.page_bytes

    def resident_bytes(self) -> int | None:
        return None if self.backing is None else self.backing.resident_bytes()

    def synthetic(self) -> Table:
        alone = Virtual(self._manager, self.ring)
        alone.backing = self.backing
        return alone

    def follow(self, work: Work) -> None:
        for request in work.released:
            seated = self._seated.pop(request)
            if self.backing:
                self.backing.give_back(*seated)
        super().follow(work)

    def _hold(self, request: int, tokens: int) -> None:
        super()._hold(request, tokens)
        seat, before = self._seated.get(request) or _Seated(int(self.owned[request][0]), 0)
        pages = max(before, self.pages_for(tokens))
        if self.backing and pages > before:
            self.backing.commit(seat, before, pages)
        self._seated[request] = _Seated(seat, pages)
