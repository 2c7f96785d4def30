"""Contiguous preallocation: one slab a request, all slabs one pool of a single page."""

from collections.abc import Sequence

import numpy as np

from executor.cache.seats import Rows
from executor.cache.table import Run, Slots, Table


class Contiguous(Table):
    """A sequence's places are slots in a row."""

    paged = False

    def units_for(self, tokens: int) -> int:
        return 1

    def fits(self, lengths: Sequence[int]) -> bool:
        """A sequence has one slab, which may be shorter than the longest context."""
        slabs = all(self.kept_tokens(length) <= self.unit_slots for length in lengths)
        return slabs and super().fits(lengths)

    def start(self, request: int) -> int:
        """First slot of the request."""
        return int(self.starts(self.owned.rows([request]))[0])

    def starts(self, rows: Rows) -> Slots:
        """First slots of those rows of `owned`. Shape: (rows,)."""
        first: Slots = self.owned.units[rows, 0].astype(np.int64)
        return first * self.unit_slots

    def kept(self, request: int, length: int) -> Run:
        start = self.start(request)
        return Run(start, start + self.kept_tokens(length))

    def at(self, rows: Rows, places: Slots) -> Slots:
        return places + self.starts(rows)
