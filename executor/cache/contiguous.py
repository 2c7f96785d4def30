"""Contiguous preallocation: one slab a request, all slabs one pool of a single page."""

import numpy as np

from executor.cache.table import Run, Slots, Table


class Contiguous(Table):
    """A sequence's positions are slots in a row."""

    paged = False

    def units_for(self, tokens: int) -> int:
        return 1

    def start(self, request: int) -> int:
        """First slot of the request."""
        return self.owned[request][0] * self.unit_slots

    def slots(self, request: int, start: int, stop: int) -> Slots:
        return np.arange(start, stop, dtype=np.int64) + self.start(request)

    def kept(self, request: int, length: int) -> Run:
        start = self.start(request)
        return Run(start, start + length)
