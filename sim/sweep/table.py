"""Rows of runs as one tidy table: Parquet and CSV, the same bytes for the same runs."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workloads.arrow import arrow_cells
from workloads.outgoing import cell_text
from workloads.write import replacing

PARQUET, CSV = "sweep.parquet", "sweep.csv"

Columns = dict[str, list[Any]]


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Columns in order of first appearance; None where a row lacks one."""
    names: Iterable[str] = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def write_table(columns: Columns, folder: Path) -> None:
    """Both files, each whole or not at all."""
    cells = {name: arrow_cells(column) for name, column in columns.items()}
    with replacing(folder / PARQUET) as unfinished, unfinished.open("wb") as file:
        pq.write_table(pa.table(cells), file, compression="zstd")
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
