"""Paging where attention reads few pages, which it chooses by their landmarks."""

from executor.cache.paged import Paged
from executor.cache.table import Table


class Selected(Paged):
    """Pages with a landmark each; a decoding request reads `count` of them."""

    def __init__(self, units: int, unit_slots: int, count: int, landmark_bytes: int) -> None:
        super().__init__(units, unit_slots)
        self.count = count
        self.landmark_bytes = landmark_bytes

    def read_tokens(self, length: int, token_bytes: int) -> int:
        marks = length * self.landmark_bytes // self.unit_slots
        return min(length, self.count * self.unit_slots) + marks // token_bytes

    def synthetic(self) -> Table:
        return Selected(self.units, self.unit_slots, self.count, self.landmark_bytes)
