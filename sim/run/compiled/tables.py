"""A run's numbers of measured step times: whole ones, and those with a fraction."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAID = 8
"""Things that a run may say of them; see `measured_lines._say`."""


class Table:
    """Numbers and the places among them; `fields` go into a run's own."""

    def __init__(self) -> None:
        self.whole: list[int] = []
        self.floats: list[float] = []
        self.fields: dict[str, int] = {}

    def put(self, numbers: Iterable[int]) -> int:
        """Append them; the place of the first."""
        place = len(self.whole)
        self.whole += numbers
        return place

    def ys(self, values: Iterable[float]) -> int:
        """Append them to those with a fraction; the place of the first."""
        place = len(self.floats)
        self.floats += values
        return place

    def line(self, xs: Any, ys: Iterable[float]) -> int:
        xs = [*xs]
        return self.put([len(xs), *xs, self.ys(ys)])

    def row(self, entries: dict[int, int]) -> int:
        """Places by key, in order."""
        keys = sorted(entries)
        return self.put([len(keys), *keys, *(entries[key] for key in keys)])

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return np.array(self.whole, np.int64), np.array(self.floats or [0.0])
