"""Sliding window with sinks: a sequence keeps a ring in which new tokens overwrite the oldest."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


class Ring(NamedTuple):
    """Position p is at place p while p < sinks, and at sinks + (p - sinks) % window after.

    `scored`: sinks are not the first tokens but, head by head, those that drew most attention among
    all that left the window; they and the window are all that a query sees.
    """

    slots: int  # sinks and window
    sinks: int
    scored: bool = False

    @property
    def window(self) -> int:
        """Places that are overwritten in turn."""
        return self.slots - self.sinks

    def places(self, positions: Positions) -> Positions:
        """Where among its sequence's slots each position lies. Shape: that of positions."""
        wrapped = self.sinks + (positions - self.sinks) % self.window
        return np.where(positions < self.sinks, positions, wrapped)

    def lost(self, positions: Positions, stop: int) -> NDArray[np.bool_]:
        """Which positions a context of length `stop` has overwritten."""
        return (positions >= self.sinks) & (positions < stop - self.window)

    def kept_positions(self, length: int) -> Positions:
        """Positions that a context of that length has kept, ascending. Shape: (kept,)."""
        sinks = np.arange(min(self.sinks, length), dtype=np.int64)
        return np.concatenate(
            [sinks, np.arange(max(self.sinks, length - self.window), length, dtype=np.int64)]
        )
