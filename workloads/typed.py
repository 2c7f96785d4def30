"""A trace's columns as arrays of their type: lists and whole numbers of any width are taken."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError

_EXACT = 2**53
"""Up to here a double holds every whole number."""
_INT64_END = 2**63


def column(name: str, values: Any, dtype: type[np.float64] | type[np.int64]) -> NDArray[Any]:
    """The values (n,) as float64 or int64, read-only; an array of that type is itself the result.

    Runs share a trace, so none of them may alter it. What values there are is not looked at, only
    what they are: see `workloads.by_hand`. Raises InputError naming the column.
    """
    fits = isinstance(values, np.ndarray) and values.dtype == dtype and values.ndim == 1
    found: NDArray[Any] = values if fits else _converted(name, values, dtype)
    found.setflags(write=False)
    return found


def _converted(name: str, values: Any, dtype: type[Any]) -> NDArray[Any]:
    kind = "whole numbers" if dtype is np.int64 else "numbers"
    expected = f"expected a row of {kind} (n,)"
    try:
        found = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{name}: {expected}") from None
    if found.ndim != 1:
        what = f"a {found.ndim}-dimensional array" if found.ndim else type(values).__name__
        raise InputError(f"{name} is {what}, {expected}")
    if found.dtype.kind not in "iuf" and len(found):
        shown = "text" if found.dtype.kind in "US" else found.dtype.name
        raise InputError(f"{name} holds {shown}, {expected}")
    if dtype is np.int64 and found.dtype.kind in "uf":
        whole = found < _INT64_END if found.dtype.kind == "u" else np.abs(found) <= _EXACT
        whole &= found == np.rint(found)
        if not whole.all():
            row = int(np.flatnonzero(~whole)[0])
            raise InputError(
                f"{name} is {found[row]} in row {row + 1}, expected a whole number below 2^63"
            )
    return found.astype(dtype)
