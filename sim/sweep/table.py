"""Rows of runs as one tidy table: Parquet and CSV, the same bytes for the same runs."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workloads.outgoing import cell_text, encodable
from workloads.write import replacing

MOST = 2**63 - 1
"""Of a whole number in a table; larger ones are texts."""

PARQUET, CSV = "sweep.parquet", "sweep.csv"

Columns = dict[str, list[Any]]


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Columns in order of first appearance; None where a row lacks one."""
    names: Iterable[str] = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def write_table(columns: Columns, folder: Path) -> None:
    """Both files, each whole or not at all."""
    with replacing(folder / PARQUET) as unfinished, unfinished.open("wb") as file:
        pq.write_table(_arrow(columns), file, compression="zstd")
    with (
        replacing(folder / CSV) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="") as text,
    ):
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(cell_text, columns))
        for row in zip(*columns.values(), strict=True):
            writer.writerow("" if cell is None else _cell(cell) for cell in row)


def _cell(cell: Any) -> str:
    return cell_text(str(cell)) if isinstance(cell, str) else repr(cell)


def _arrow(columns: Columns) -> pa.Table:
    """Whole numbers, numbers, truth values or texts, whatever all cells of a column are."""
    return pa.table({name: _array(cells) for name, cells in columns.items()})


def _array(cells: list[Any]) -> pa.Array:
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {bool}:
        return pa.array(cells, pa.bool_() if kinds else pa.string())
    counted = all(-MOST <= cell <= MOST for cell in cells if type(cell) is int)
    if kinds <= {int} and counted:
        return pa.array(cells, pa.int64())
    if kinds <= {int, float} and counted:
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    texts = [None if cell is None else encodable(str(cell)) for cell in cells]
    return pa.array(texts, pa.string())
