"""Columns of Parquet files that come from outside."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workloads import columns
from workloads.columns import read_columns
from workloads.errors import InputError


def test_a_damaged_file_whose_column_ends_early_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow decodes some damaged pages to fewer rows than the file says it has."""
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"tokens": [1, 2, 3], "time_s": [0.5, 1.0, 1.5]}), file)
    kinds: dict[str, Any] = {"tokens": "whole", "time_s": "number"}
    found, _ = read_columns(file, kinds, "a table")
    assert {name: column.tolist() for name, column in found.items()} == {
        "tokens": [1, 2, 3], "time_s": [0.5, 1.0, 1.5],
    }  # fmt: skip
    whole = columns._array

    def damaged(path: Path, name: str, *rest: Any) -> np.ndarray:
        return whole(path, name, *rest)[: 3 - (name == "time_s")]

    monkeypatch.setattr(columns, "_array", damaged)
    with pytest.raises(InputError, match=r"a.parquet: column 'time_s' ends after 2 of 3 rows"):
        read_columns(file, kinds, "a table")
