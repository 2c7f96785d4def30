"""A curve of sorted values in fewer points."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def curve(values: NDArray[np.float64], points: int) -> tuple[NDArray[np.float64], Rows]:
    """Sorted values and their ranks (1 = smallest), at most `points`, both extremes among them.

    The values are put into order where they are: millions of them need not be there twice.
    """
    values.sort()
    if len(values) > points:
        rows = np.unique(np.linspace(0, len(values) - 1, points).round().astype(np.int64))
    else:
        rows = np.arange(len(values))
    return values[rows], rows + 1
