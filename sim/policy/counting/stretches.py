"""How much of each stretch of an address space was held, from the free spans that were noted."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def held(counts: ArrayLike, spans: ArrayLike, size: int, stretches: int) -> NDArray[np.float64]:
    """Shares held, 0 to 1: a row for each of `counts`, a column for each of equal stretches.

    `counts` says how many of `spans`, free (address, units) one after another, belong to each row.
    """
    rows = np.asarray(counts, np.int64)
    address, units = np.asarray(spans, np.int64).reshape(-1, 2).T
    end, width = address + units, size / stretches
    edges = np.arange(stretches) * width
    first = (address / width).astype(np.int64)
    number = np.maximum(np.searchsorted(edges, end) - first, 0)  # of stretches a span reaches into
    span = np.repeat(np.arange(len(end)), number)
    place = first[span] + np.arange(len(span)) - (np.cumsum(number) - number)[span]
    low, high = place * width, (place + 1) * width
    part = np.maximum(np.minimum(end[span], high) - np.maximum(address[span], low), 0.0)
    row = np.repeat(np.arange(len(rows)), rows)[span]
    free = np.bincount(row * stretches + place, part, len(rows) * stretches)
    share: NDArray[np.float64] = 1 - free.reshape(-1, stretches) / width
    return share
