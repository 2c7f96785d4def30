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

    def slots(self, request: int, start: int, stop: int) -> Slots:
        """As in `Table.slots`; -1 for positions that later ones of the same span overwrite."""
        positions = np.arange(start, stop, dtype=np.int64)
        slots = self._places(positions) + self.start(request)
        slots[(positions >= self.sinks) & (positions < stop - self.window)] = -1
        return slots

    def kept(self, request: int, length: int) -> Run:
        return super().kept(request, min(length, self.unit_slots))

    def wraps(self, length: int) -> bool:
        """Whether a context of that length has overwritten keys."""
        return length > self.unit_slots

    def kept_positions(self, length: int) -> Slots:
        """Positions that a context of that length has kept, ascending. Shape: (kept,)."""
        sinks = np.arange(min(self.sinks, length), dtype=np.int64)
        return np.concatenate(
            [sinks, np.arange(max(self.sinks, length - self.window), length, dtype=np.int64)]
        )

    def kept_slots(self, request: int, length: int) -> Slots:
        """Slots of those positions, in their order. Shape: (kept,)."""
        return self._places(self.kept_positions(length)) + self.start(request)

    def _places(self, positions: Slots) -> Slots:
        wrapped = self.sinks + (positions - self.sinks) % self.window
        return np.where(positions < self.sinks, positions, wrapped)
