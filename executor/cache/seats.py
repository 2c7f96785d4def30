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

    @property
    def width(self) -> int:
        """Units that a row has room for."""
        return int(self.units.shape[1])

    def fill(self, rows: Rows, out: Units) -> None:
        """Copy those rows whole; beyond a row's count there is anything. out: (rows, width)."""
        np.take(self.units, rows, axis=0, out=out, mode="clip")  # whole rows, so a plain copy each

    def reserve(self, width: int) -> None:
        """Make rows of at least that width, once for all."""
        if width > self.width:
            grown = np.zeros((len(self.units), width), dtype=np.int32)
            grown[:, : self.width] = self.units
            self.units = grown

    def append(self, request: int, units: Sequence[int]) -> None:
        """More units behind those that the request owns."""
        row = self._row.get(request)
        if row is None:
            row = self._sit(request)
        start = int(self.counts[row])
        if start + len(units) > self.width:
            self.reserve(max(start + len(units), 2 * self.width))
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
