"""Which slots each sequence has: the ids behind the counts that a policy's manager keeps.

Managers decide and count; a table follows their decisions and hands out ids, so that it can be
checked against them after every plan. A *slot* is a token's place in one layer's pool, a *page*
`page_size` of them in a row. Freed pages are reused last in, first out: the same run gives the
same ids.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from executor.cache.ring import Ring
from executor.work import Work
from sim.policy.manager import Manager

Slots = NDArray[np.int64]


class Run(NamedTuple):
    """Slots in a row."""

    start: int
    stop: int


class Move(NamedTuple):
    """Slots to copy before the step, to others that don't overlap them."""

    source: int
    target: int
    slots: int


class Table(ABC):
    """Units (pages, slabs) of `unit_slots` slots each, owned by requests.

    With a ring a sequence keeps the ring's slots alone, wherever they lie.
    """

    paged: bool  # whether a sequence's units lie apart, so that kernels need a page table

    def __init__(self, units: int, unit_slots: int, ring: Ring | None = None) -> None:
        self.units = units
        self.unit_slots = unit_slots
        self.ring = ring
        self.landmark_bytes = 0  # of each unit, beside its slots
        self.moves: list[Move] = []  # that the step under way begins with
        self._free = list(range(units - 1, -1, -1))
        self.owned: dict[int, list[int]] = {}

    @abstractmethod
    def units_for(self, tokens: int) -> int:
        """Units that a sequence of so many tokens owns."""

    @abstractmethod
    def kept(self, request: int, length: int) -> "Run | list[int]":
        """Where the keys of a context of that length are: slots in a row, or pages in order."""

    @abstractmethod
    def _at(self, request: int, places: Slots) -> Slots:
        """Slots of the places among the request's own. Shape: that of places."""

    def slots(self, request: int, start: int, stop: int) -> Slots:
        """Slots of positions start..stop-1; -1 for those that later ones of the span overwrite.

        Shape: (stop - start,).
        """
        positions = np.arange(start, stop, dtype=np.int64)
        if self.ring is None:
            return self._at(request, positions)
        slots = self._at(request, self.ring.places(positions))
        slots[self.ring.lost(positions, stop)] = -1
        return slots

    def kept_tokens(self, length: int) -> int:
        """Tokens that a context of that length keeps."""
        return length if self.ring is None else min(length, self.ring.slots)

    def kept_slots(self, request: int, length: int) -> Slots:
        """Slots of a wrapped context's keys, by position. Shape: (kept,)."""
        assert self.ring is not None
        return self._at(request, self.ring.places(self.ring.kept_positions(length)))

    def synthetic(self) -> "Table":
        """An empty table over as many slots, for sequences that no manager has admitted."""
        return type(self)(self.units, self.unit_slots, self.ring)

    def held_bytes(self, token_bytes: int) -> int:
        """Of all units that requests own."""
        unit_bytes = self.unit_slots * token_bytes + self.landmark_bytes
        return (self.units - len(self._free)) * unit_bytes

    def follow(self, work: Work) -> None:
        """Give back and take units as the step's plan implies."""
        for request in work.released:
            self._free.extend(reversed(self.owned.pop(request)))
        for request, length in work.decodes:
            self._hold(request, length)
        for chunk in work.chunks:
            self._hold(chunk.request, chunk.start + chunk.tokens)

    def _hold(self, request: int, tokens: int) -> None:
        owned = self.owned.setdefault(request, [])
        for _ in range(self.units_for(tokens) - len(owned)):
            owned.append(self._free.pop())

    def check(self, manager: Manager) -> None:
        """Raise AssertionError where the ids handed out differ from what the manager counts."""
        memory = manager.memory()
        counted = manager.pool.capacity_bytes - memory.free - memory.external
        held = self.held_bytes(manager.pool.token_bytes)
        assert held == counted, f"slots of {held} B are owned, the policy counts {counted} B"
        self._check_ids()

    def _check_ids(self) -> None:
        taken = [unit for units in self.owned.values() for unit in units]
        assert sorted([*taken, *self._free]) == list(range(self.units))
