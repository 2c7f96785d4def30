"""Arrow arrays made of numpy's buffers and of cells.

`pa.array` would import pandas to ask whether it was given a series, which takes longer than
simulating 10,000 requests.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from workloads.outgoing import encodable

MOST = 2**63 - 1
"""Of a whole number in a column."""


def arrow_array(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column as it is, uncopied; null where it is missing: without a mask, where it is NaN."""
    missing = np.isnan(values) if missing is None else missing
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [_valid(missing), pa.py_buffer(values)]
    )


def arrow_texts(values: Sequence[str | None]) -> pa.Array:
    """Texts, null for None."""
    encoded = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    missing = np.array([value is None for value in values], dtype=np.bool_)
    return pa.StringArray.from_buffers(
        len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)), _valid(missing)
    )


def arrow_cells(cells: Sequence[Any]) -> pa.Array:
    """Whole numbers, numbers, truth values or texts, whatever all cells are; null for None.

    Numbers beyond 64 bits make a column of texts.
    """
    kinds = {type(cell) for cell in cells if cell is not None}
    missing = np.array([cell is None for cell in cells], dtype=np.bool_)
    known = [0 if cell is None else cell for cell in cells]
    if kinds == {bool}:
        bits = pa.py_buffer(np.packbits(np.array(known, dtype=np.bool_), bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(cells), [_valid(missing), bits])
    counted = all(-MOST <= cell <= MOST for cell in cells if type(cell) is int)
    if kinds and kinds <= {int, float} and counted:
        kind = np.int64 if kinds == {int} else np.float64
        return arrow_array(np.array(known, dtype=kind), missing)
    return arrow_texts([None if cell is None else encodable(str(cell)) for cell in cells])


def _valid(missing: NDArray[np.bool_]) -> pa.Buffer | None:
    """Arrow's bitmap of what is there; none where all is."""
    return pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None


def plain(array: Any) -> NDArray[Any]:
    """Numbers of an Arrow array as numpy's, null as NaN.

    Arrow's own `to_numpy` imports pandas, which takes longer than simulating 10,000 requests.
    """
    if not array.null_count:
        whole: NDArray[Any] = np.from_dlpack(array)
        return whole
    valid, values = array.buffers()
    rows = slice(array.offset, array.offset + len(array))
    there = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[rows]
    return np.where(there, np.frombuffer(values, np.float64)[rows], np.nan)
