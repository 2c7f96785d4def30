"""Fewer points that keep every extreme: a peak of one sample must still be seen."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tsdownsample import MinMaxDownsampler

Rows = NDArray[np.int64]


def kept(x: NDArray[Any], series: list[NDArray[Any]], points: int) -> Rows:
    """Row numbers that draw all `series` over the same `x` faithfully, in order.

    The rows of each series' minimum and maximum in equal spans of x, first and last row included,
    about `points` of them in all.
    """
    varying = [y for y in series if len(y) and y.min() < y.max()]
    if len(x) <= points or not varying:
        return np.arange(len(x))
    each = max(4, points // len(varying) // 2 * 2)  # the downsampler takes even numbers
    downsample = MinMaxDownsampler().downsample  # type: ignore[no-untyped-call]
    rows = [downsample(x, np.ascontiguousarray(y, np.float64), n_out=each) for y in varying]
    ends = np.array([0, len(x) - 1])
    return np.unique(np.concatenate([ends, *rows]).astype(np.int64))


def curve(values: NDArray[np.float64], points: int) -> tuple[NDArray[np.float64], Rows]:
    """Sorted values and their ranks (1 = smallest), at most `points`, both extremes among them."""
    ordered = np.sort(values)
    if len(ordered) > points:
        rows = np.unique(np.linspace(0, len(ordered) - 1, points).round().astype(np.int64))
    else:
        rows = np.arange(len(ordered))
    return ordered[rows], rows + 1
