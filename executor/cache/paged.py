"""Paging: blocks anywhere in the pool, found by a table a request. Chunks are large blocks."""

import numpy as np

from executor.cache.seats import Rows, Units
from executor.cache.table import Slots, Table


class Paged(Table):
    """Place p lies in the request's page p // page_size, at p % page_size."""

    paged = True

    def units_for(self, tokens: int) -> int:
        return -(-self.kept_tokens(tokens) // self.unit_slots)

    def kept(self, request: int, length: int) -> Units:
        return self.owned[request][: self.units_for(length)]

    def at(self, rows: Rows, places: Slots) -> Slots:
        pages = self.owned.units[rows, places // self.unit_slots].astype(np.int64)
        return pages * self.unit_slots + places % self.unit_slots
