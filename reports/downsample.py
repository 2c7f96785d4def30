"""A curve of sorted values in fewer points."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def curve(values: NDArray[np.float64], points: int) -> tuple[NDArray[np.float64], Rows]:
    """Sorted values and their ranks (1 = smallest), at most `points`, both extremes among them."""
    ordered = np.sort(values)
    if len(ordered) > points:
        rows = np.unique(np.linspace(0, len(ordered) - 1, points).round().astype(np.int64))
    else:
        rows = np.arange(len(ordered))
    return ordered[rows], rows + 1
