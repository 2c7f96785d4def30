"""Which slots each sequence has: the ids behind the counts that a policy's manager keeps.

Managers decide and count; a table follows their decisions and hands out ids, so that it can be
checked against them after every plan. A *slot* is a token's place in one layer's pool, a *page*
`page_size` of them in a row. Freed pages are reused last in, first out: the same run gives the
same ids.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from executor.cache.ring import Ring
from executor.cache.seats import Rows, Seats, Units
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


class View(NamedTuple):
    """What some layers see: whose units theirs are, and how many keys a query reads."""

    table: "Table"
    window: int  # the query's own included; 0: all that are kept


class Place(NamedTuple):
    """Where a layer's tokens are."""

    view: int  # index of its block table among the table's views
    pool: int | None  # of the tensors that layers share; None: it has its own


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
        self.owned = Seats()
        self.views: tuple[View, ...] = (View(self, 0),)

    @abstractmethod
    def units_for(self, tokens: int) -> int:
        """Units that a sequence of so many tokens owns."""

    @abstractmethod
    def kept(self, request: int, length: int) -> Run | Units:
        """Where the keys of a context of that length are: slots in a row, or pages in order."""

    @abstractmethod
    def at(self, rows: Rows, places: Slots) -> Slots:
        """Slots of places among the units of those rows of `owned`. Shape: that of places, with
        which rows must broadcast."""

    def slots(self, request: int, start: int, stop: int) -> Slots:
        """Slots of positions start..stop-1; -1 for those that later ones of the span overwrite.

        Shape: (stop - start,).
        """
        positions, rows = np.arange(start, stop, dtype=np.int64), self.owned.rows([request])
        if self.ring is None:
            return self.at(rows, positions)
        slots = self.at(rows, self.ring.places(positions))
        slots[self.ring.lost(positions, stop)] = -1
        return slots

    def last_slots(self, rows: Rows, lengths: Slots) -> Slots:
        """Slots of the last tokens of contexts of those lengths. Shape: that of both."""
        positions = lengths - 1
        return self.at(rows, self.ring.places(positions) if self.ring else positions)

    def step_slots(self, work: Work, rows: Rows, lengths: Slots) -> Slots:
        """Slots of all tokens of a step, in the order of its `Work`; -1 as in `slots`.

        rows, lengths: of its decodes.
        """
        chunks = [self.slots(c.request, c.start, c.start + c.tokens) for c in work.chunks]
        return np.concatenate([*chunks, self.last_slots(rows, lengths)])

    def kept_tokens(self, length: int) -> int:
        """Tokens that a context of that length keeps."""
        return length if self.ring is None else min(length, self.ring.slots)

    def place(self, group: int, number: int) -> Place:
        """Of the layer that has that number in that group of the model's layers."""
        return Place(0, None)

    @property
    def cap(self) -> int | None:
        """Tokens that a sequence never keeps more of; None: there is no such number."""
        return None if self.ring is None else self.ring.slots

    def read_tokens(self, length: int, token_bytes: int) -> int:
        """Tokens' worth of bytes that a decode step reads of a context of that length."""
        return self.kept_tokens(length)

    def moving(self, request: int, length: int) -> list[Run | Units]:
        """All that is there of a context of that length, each part once."""
        return [self.kept(request, length)]

    def units_there(self, part: int, length: int, found: int) -> int:
        """Of such a part, the units from the first on that the first `found` tokens have."""
        return found // self.unit_slots

    def fits(self, lengths: Sequence[int]) -> bool:
        """Whether an empty pool has room for contexts of those lengths."""
        return sum(self.units_for(length) for length in lengths) <= self.units

    def kept_slots(self, request: int, length: int) -> Slots:
        """Slots of a wrapped context's keys, by position. Shape: (kept,)."""
        assert self.ring is not None
        rows = self.owned.rows([request])
        return self.at(rows, self.ring.places(self.ring.kept_positions(length)))

    def synthetic(self) -> "Table":
        """An empty table over as many slots, for sequences that no manager has admitted."""
        return type(self)(self.units, self.unit_slots, self.ring)

    def held_bytes(self, token_bytes: int) -> int:
        """Of all units that requests own."""
        unit_bytes = self.unit_slots * token_bytes + self.landmark_bytes
        return (self.units - len(self._free)) * unit_bytes

    def resident_bytes(self) -> int | None:
        """What the system says that requests' memory takes; None where it is all there always."""
        return None

    def follow(self, work: Work) -> None:
        """Give back and take units as the step's plan implies."""
        for request in work.released:
            self._free.extend(reversed(self.owned.pop(request)))
        for request, length in work.decodes:
            self._hold(request, length)
        for chunk in work.chunks:
            self._hold(chunk.request, chunk.start + chunk.tokens)

    def _hold(self, request: int, tokens: int) -> None:
        missing = self.units_for(tokens) - self.owned.count(request)
        if missing > 0:
            self.owned.append(request, [self._free.pop() for _ in range(missing)])

    def check(self, manager: Manager) -> None:
        """Raise AssertionError where the ids handed out differ from what the manager counts."""
        memory = manager.memory()
        counted = manager.pool.capacity_bytes - memory.free - memory.external
        held = self.held_bytes(manager.pool.token_bytes)
        assert held == counted, f"slots of {held} B are owned, the policy counts {counted} B"
        self._check_ids()

    def _check_ids(self) -> None:
        taken = [unit for units in self.owned.lists().values() for unit in units]
        assert sorted([*taken, *self._free]) == list(range(self.units))
