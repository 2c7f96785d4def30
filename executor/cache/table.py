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

from executor.work import Work
from sim.policy.base import Manager, Policy
from workloads.errors import InputError

Slots = NDArray[np.int64]


class Run(NamedTuple):
    """Slots in a row."""

    start: int
    stop: int


class Table(ABC):
    """Units (pages, slabs, rings) of `unit_slots` slots each, owned by requests."""

    paged: bool  # whether a sequence's units lie apart, so that kernels need a page table

    def __init__(self, units: int, unit_slots: int) -> None:
        self.units = units
        self.unit_slots = unit_slots
        self._free = list(range(units - 1, -1, -1))
        self.owned: dict[int, list[int]] = {}

    @property
    def held_slots(self) -> int:
        """Slots of all units that requests own."""
        return (self.units - len(self._free)) * self.unit_slots

    @abstractmethod
    def units_for(self, tokens: int) -> int:
        """Units that a sequence of so many tokens owns."""

    @abstractmethod
    def slots(self, request: int, start: int, stop: int) -> Slots:
        """Slots of the request's positions start..stop-1. Shape: (stop - start,)."""

    @abstractmethod
    def kept(self, request: int, length: int) -> "Run | list[int]":
        """Where the keys of a context of that length are: slots in a row, or pages in order."""

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
        held = self.held_slots * manager.pool.token_bytes
        assert held == counted, f"slots of {held} B are owned, the policy counts {counted} B"
        taken = [unit for units in self.owned.values() for unit in units]
        assert sorted([*taken, *self._free]) == list(range(self.units))


def table_for(manager: Manager, sinks: int = 0) -> Table:
    """The table that follows this kind of manager, over an equal pool.

    `sinks`: first tokens that a sliding window keeps. Raises InputError for a policy that has no
    tensors behind it yet.
    """
    from executor.cache.contiguous import Contiguous
    from executor.cache.paged import Paged
    from executor.cache.ring import Ring
    from sim.policy.paging import Pages
    from sim.policy.preallocation import Rings, Slabs

    if type(manager) is Rings:
        return Ring(manager.total, manager.slots, min(sinks, manager.slots - 1))
    if type(manager) is Slabs:
        return Contiguous(manager.total, manager.slots)
    if type(manager) is Pages:
        return Paged(manager.blocks, manager.block_size)
    raise InputError(f"{type(manager).__name__}: the executor has no cache of this kind")


def sinks_of(policy: Policy) -> int:
    """First tokens that the policy keeps beside its window; 0 where it has none."""
    retention = getattr(policy, "retention", None) or policy
    sinks: int = getattr(retention, "sinks", 0)
    return sinks
