"""Paging: blocks anywhere in the pool, found by a table a request. Chunks are large blocks."""

import numpy as np

from executor.cache.table import Slots, Table


class Paged(Table):
    """Place p lies in the request's page p // page_size, at p % page_size."""

    paged = True

    def units_for(self, tokens: int) -> int:
        return -(-self.kept_tokens(tokens) // self.unit_slots)

    def kept(self, request: int, length: int) -> list[int]:
        return self.owned[request][: self.units_for(length)]

    def _at(self, request: int, places: Slots) -> Slots:
        pages = np.array(self.owned[request], dtype=np.int64)
        return pages[places // self.unit_slots] * self.unit_slots + places % self.unit_slots
