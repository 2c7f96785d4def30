"""Arrow arrays without pandas: as `pa.array` makes them."""

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from workloads.arrow import arrow_array, arrow_cells, arrow_texts


@pytest.mark.parametrize(
    "cells",
    [
        [1, 2, 3], [1, None, 3], [1.5, 2, None], [True, False, None, True], [None, None], [],
        ["a", None, "über", ""], ["a", 1], [True, 1], [float("nan"), 1.0],
        [None] * 9 + [2**62], [2**63, None],
    ],
    ids=str,
)  # fmt: skip
def test_cells(cells: list[Any]) -> None:
    kinds = {type(cell) for cell in cells if cell is not None}
    kind = pa.string()
    if kinds == {bool}:
        kind = pa.bool_()
    elif kinds == {int} and max(filter(None, cells)) < 2**63:
        kind = pa.int64()
    elif kinds and kinds <= {int, float} and kinds != {int}:
        kind = pa.float64()
    texts = [None if cell is None else str(cell) for cell in cells]
    expected = pa.array(texts if kind == pa.string() else cells, kind)
    found = arrow_cells(cells)
    found.validate(full=True)
    assert found.type == expected.type
    assert found.null_count == expected.null_count
    assert str(found.to_pylist()) == str(expected.to_pylist())


def test_columns() -> None:
    """Uncopied; NaN is null unless told otherwise."""
    values = np.array([0.0, np.nan, 2.0])
    assert arrow_array(values).to_pylist() == [0.0, None, 2.0]
    kept = arrow_array(values, np.zeros(3, dtype=np.bool_))
    assert kept.null_count == 0
    assert kept.buffers()[1].address == values.ctypes.data
    assert arrow_array(np.arange(3, dtype=np.int8)) == pa.array([0, 1, 2], pa.int8())
    assert arrow_texts(("a", "bc")) == pa.array(["a", "bc"])


def test_pandas_is_not_loaded() -> None:
    code = (
        "import sys, numpy, pyarrow, pyarrow.parquet as pq, io\n"
        "from workloads.arrow import arrow_array, arrow_cells\n"
        "columns = {'a': arrow_cells(['x', None]), 'b': arrow_array(numpy.arange(2))}\n"
        "table = pyarrow.table(columns)\n"
        "pq.write_table(table, io.BytesIO())\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
