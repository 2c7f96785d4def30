"""Pairs of seconds and attoseconds as the nearest doubles, by column.

Double-double arithmetic (Dekker 1971; Knuth, TAOCP 2, 4.2.2): the quotient is known to 2**-104 of
itself, and a value of whole attoseconds is never nearer than 2**-95 to the midpoint of two doubles
without being one. So the result is that of Python's exact `int / int`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

E18 = 1e18  # a double: 2**18 * 5**18, and 5**18 < 2**53
SPLIT = 134217729.0  # 2**27 + 1


def seconds(whole: ArrayLike, rest: ArrayLike) -> Floats:
    """whole + rest / 10**18 for 0 <= whole < 2**53 and 0 <= rest < 10**18, correctly rounded."""
    s, a = np.asarray(whole, np.int64), np.asarray(rest, np.int64)
    high = a.astype(np.float64)
    low = (a - high.astype(np.int64)).astype(np.float64)  # a = high + low exactly
    first = high / E18
    product, error = _product(first, E18)
    left = high - product - error + low
    second = left / E18
    product, error = _product(second, E18)
    third = (left - product - error) / E18
    first, second = _sum(first, second)
    total, lost = _sum(s.astype(np.float64), first)
    result: Floats = total + (lost + (second + third))
    return result


def _sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum, and what rounding lost."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _product(a: Floats, b: float) -> tuple[Floats, Floats]:
    """The rounded product, and what rounding lost."""
    p = a * b
    x, y = SPLIT * a, SPLIT * b
    a_high = x - (x - a)
    b_high = y - (y - b)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
