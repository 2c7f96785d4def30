"""Sliding window with sinks: one ring a request, in which new tokens overwrite the oldest."""

import numpy as np

from executor.cache.contiguous import Contiguous
from executor.cache.table import Run, Slots


class Ring(Contiguous):
    """Position p lies at p while p < sinks, and at sinks + (p - sinks) % window after."""

    def __init__(self, units: int, unit_slots: int, sinks: int) -> None:
        super().__init__(units, unit_slots)
        self.sinks = sinks
        self.window = unit_slots - sinks

    def place(self, positions: Slots) -> Slots:
        """Place of each position within the ring. Shape: that of `positions`."""
        wrapped = self.sinks + (positions - self.sinks) % self.window
        return np.where(positions < self.sinks, positions, wrapped)

    def slots(self, request: int, start: int, stop: int) -> Slots:
        return self.place(np.arange(start, stop, dtype=np.int64)) + self.start(request)

    def kept(self, request: int, length: int) -> Run:
        return super().kept(request, min(length, self.unit_slots))

    def kept_positions(self, length: int) -> Slots:
        """Positions that a context of that length has kept, ascending."""
        recent = max(self.sinks, length - self.window)
        parts = (range(min(self.sinks, length)), range(recent, length))
        return np.array([p for part in parts for p in part], dtype=np.int64)
