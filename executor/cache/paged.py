"""Paging: blocks anywhere in the pool, found by a table a request. Chunks are large blocks."""

import numpy as np

from executor.cache.table import Slots, Table


class Paged(Table):
    """Position p lies in the request's page p // page_size, at p % page_size."""

    paged = True

    def units_for(self, tokens: int) -> int:
        return -(-tokens // self.unit_slots)

    def slots(self, request: int, start: int, stop: int) -> Slots:
        positions = np.arange(start, stop, dtype=np.int64)
        pages = np.array(self.owned[request], dtype=np.int64)
        return pages[positions // self.unit_slots] * self.unit_slots + positions % self.unit_slots

    def kept(self, request: int, length: int) -> list[int]:
        return self.owned[request][: self.units_for(length)]
