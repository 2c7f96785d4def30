"""Sums of long columns that come in parts, to the last bit those of the whole."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

AT_ONCE = 1 << 16
"""Numbers that are summed by numpy alone."""


def pairwise_sum(count: int, values: Iterator[Floats]) -> float:
    """The sum of so many values that come in parts, halved as numpy halves one long array.

    numpy sums blocks of at most 128 and adds halves whose first is a multiple of 8 long, so this is
    its own sum of the joined parts to the last bit (of numpy 2.3; 2.0 differs).
    """
    return _sum(count, _taker(values))


def _sum(count: int, take: Callable[[int], Floats]) -> float:
    if count <= AT_ONCE:
        return float(take(count).sum())
    half = count // 2
    half -= half % 8
    first = _sum(half, take)
    return first + _sum(count - half, take)


def _taker(values: Iterator[Floats]) -> Callable[[int], Floats]:
    rest = np.empty(0)

    def take(count: int) -> Floats:
        nonlocal rest
        taken, missing = [], count
        while missing:
            if not len(rest):
                rest = next(values)
            taken.append(rest[:missing])
            rest = rest[missing:]
            missing -= len(taken[-1])
        return np.concatenate(taken) if taken else np.empty(0)

    return take
