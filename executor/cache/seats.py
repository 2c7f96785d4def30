"""Which units each request owns, as rows of one matrix: a step's addresses are array operations."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Units = NDArray[np.int32]


class Seats:
    """A request sits in a row of `units` while it owns any; rows are reused last in, first out."""

    def __init__(self) -> None:
        self.units: Units = np.zeros((8, 8), dtype=np.int32)
        self.counts: Rows = np.zeros(8, dtype=np.int64)
        self._row: dict[int, int] = {}
        self._empty = list(range(7, -1, -1))

    def __contains__(self, request: int) -> bool:
        return request in self._row

    def __iter__(self) -> Iterator[int]:
        return iter(self._row)

    def __getitem__(self, request: int) -> Units:
        """Units of the request in order, a view. Shape: (count,)."""
        row = self._row[request]
        return self.units[row, : self.counts[row]]

    def count(self, request: int) -> int:
        """Units that the request owns; 0 where it has no seat."""
        row = self._row.get(request)
        return 0 if row is None else int(self.counts[row])

    def rows(self, requests: Sequence[int]) -> Rows:
        """Rows of requests that have seats. Shape: (requests,)."""
        return np.array([self._row[request] for request in requests], dtype=np.int64)

    def matrix(self, rows: Rows) -> Units:
        """Units of those rows, as wide as the longest; beyond a row's count anything."""
        width = int(self.counts[rows].max(initial=1))
        return self.units[rows, :width]

    def append(self, request: int, units: Sequence[int]) -> None:
        """More units behind those that the request owns."""
        row = self._row.get(request)
        if row is None:
            row = self._sit(request)
        start = int(self.counts[row])
        self._widen(start + len(units))
        self.units[row, start : start + len(units)] = units
        self.counts[row] = start + len(units)

    def pop(self, request: int) -> list[int]:
        """Take the request's seat away; its units in order."""
        units: list[int] = self[request].tolist()
        row = self._row.pop(request)
        self.counts[row] = 0
        self._empty.append(row)
        return units

    def lists(self) -> dict[int, list[int]]:
        """Every request's units in order."""
        return {request: self[request].tolist() for request in self}

    def _sit(self, request: int) -> int:
        if not self._empty:
            more = len(self.units)
            self.units = np.concatenate([self.units, np.zeros_like(self.units)])
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
            self._empty = list(range(2 * more - 1, more - 1, -1))
        row = self._row[request] = self._empty.pop()
        return row

    def _widen(self, width: int) -> None:
        if width > self.units.shape[1]:
            grown = np.zeros((len(self.units), max(width, 2 * self.units.shape[1])), dtype=np.int32)
            grown[:, : self.units.shape[1]] = self.units
            self.units = grown
