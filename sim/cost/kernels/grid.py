"""Linear interpolation in measured tables. Log space would cost three times the error."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence


def total(values: Iterable[float]) -> float:
    """From left to right on every Python; from 3.12 on `sum` corrects as it goes."""
    added = 0.0
    for value in values:
        added += value
    return added


class Line:
    """y over x through measured points; beyond them the end segments go on."""

    __slots__ = ("xs", "ys")

    def __init__(self, points: Iterable[tuple[int, float]]) -> None:
        pairs = sorted(points)
        self.xs = [x for x, _ in pairs]
        self.ys = [y for _, y in pairs]

    def at(self, x: float) -> float:
        """The value at x."""
        if len(self.xs) == 1:
            return self.ys[0]
        i = segment(self.xs, x)
        share = (x - self.xs[i]) / (self.xs[i + 1] - self.xs[i])
        return self.ys[i] + share * (self.ys[i + 1] - self.ys[i])

    def at_tile(self, x: int) -> float:
        """The value at the smallest measured size not below x: a part of a tile costs it whole."""
        i = bisect_left(self.xs, x)
        return self.ys[i] if i < len(self.xs) else self.ys[-1]


class Grid:
    """Nested linear interpolation over (chunk, earlier context, decodes, decode context).

    Each level may be ragged: the neighbours along one axis are those that were measured there.
    Decodes without a chunk and chunks without decodes must be among the rows.
    """

    def __init__(self, rows: Iterable[tuple[Sequence[int], float]]) -> None:
        tree: dict[int, dict[int, dict[int, list[tuple[int, float]]]]] = {}
        for (chunk, earlier, decodes, context), time in rows:
            row = tree.setdefault(chunk, {}).setdefault(earlier, {})
            row.setdefault(decodes, []).append((context, time))
        self._tree: dict[int, dict[int, dict[int, Line]]] = {}
        for chunk, by_earlier in tree.items():
            self._tree[chunk] = {
                earlier: {n: Line(points) for n, points in row.items()}
                for earlier, row in by_earlier.items()
            }
        alone = self._tree[0][0]
        self.chunks = sorted(chunk for chunk in self._tree if chunk)
        self.most_decodes = max(alone)
        beside = [max(row) for chunk in self.chunks for row in self._tree[chunk].values()]
        self.most_decodes_beside = max(beside)  # a chunk
        self.decode_contexts = sorted({x for line in alone.values() for x in line.xs})
        self.longest_earlier = max(self._tree[self.chunks[-1]])

    def decode(self, decodes: int, context: float) -> float:
        """Time of `decodes` sequences that each see `context` keys, no chunk beside them."""
        return _across(self._tree[0][0], decodes, context)

    def chunk(self, chunk: int, earlier: float, decodes: int = 0, context: float = 0) -> float:
        """Time of a chunk that sees `earlier` keys before itself, beside decoding sequences."""
        low, high, share = neighbours(self.chunks, chunk)
        first = self._earlier(low, earlier, decodes, context)
        if not share:
            return first
        return first + share * (self._earlier(high, earlier, decodes, context) - first)

    def _earlier(self, chunk: int, earlier: float, decodes: int, context: float) -> float:
        rows = self._tree[chunk]
        known = sorted(e for e, row in rows.items() if (max(row) if decodes else 0 in row))
        low, high, share = neighbours(known, earlier)
        first = _across(rows[low], decodes, context)
        if not share:
            return first
        return first + share * (_across(rows[high], decodes, context) - first)


def _across(row: dict[int, Line], decodes: int, context: float) -> float:
    """Between two numbers of decoding sequences."""
    low, high, share = neighbours(sorted(row), decodes)
    first = row[low].at(context)
    return first if not share else first + share * (row[high].at(context) - first)


def segment(xs: Sequence[int], x: float) -> int:
    """Index of the segment in which x lies, or of the nearest."""
    return min(max(bisect_right(xs, x) - 1, 0), len(xs) - 2)


def neighbours(xs: Sequence[int], x: float) -> tuple[int, int, float]:
    """Measured sizes around x, and how far x lies between them: below 0 or above 1 outside.

    Below the smallest size its own value holds: no kernel is faster than a small one.
    """
    if len(xs) == 1 or x <= xs[0]:
        return xs[0], xs[0], 0.0
    i = segment(xs, x)
    return xs[i], xs[i + 1], (x - xs[i]) / (xs[i + 1] - xs[i])
