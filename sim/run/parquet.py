"""Tables as Parquet files, written a row group at a time and read by parts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sim.engine.record import ROWS_AT_ONCE, STATUSES, Column
from sim.run.tables import Elsewhere, joined
from workloads.arrow import arrow_array, arrow_texts, plain

GROUP_ROWS = 1 << 17
"""Of a row group. A table that has no more is never read again: its columns are still there."""


class Files:
    """A sink that writes Parquet files into a folder, a row group as soon as its rows are there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, _Growing] = {}

    def add(self, table: str, part: Mapping[str, Column]) -> None:
        """As `Sink` says."""
        if table not in self._tables:
            self._tables[table] = _Growing(self._folder / f"{table}.parquet")
        self._tables[table].add(part)

    def whole(self, table: str) -> Mapping[str, Column]:
        """As `Sink` says; the file is complete then."""
        return self._tables[table].whole()


class _Growing:
    """A file of which some row groups are written."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waiting: list[Mapping[str, Column]] = []
        self._rows = 0
        self._writer: Any = None

    def add(self, part: Mapping[str, Column]) -> None:
        self._waiting.append(part)
        self._rows += len(next(iter(part.values())))
        if self._rows <= GROUP_ROWS:
            return
        rows = joined(self._waiting)
        end = (self._rows - 1) // GROUP_ROWS * GROUP_ROWS  # the last group comes with `whole`
        for start in range(0, end, GROUP_ROWS):
            self._write({k: column[start : start + GROUP_ROWS] for k, column in rows.items()})
        self._waiting = [{k: column[end:].copy() for k, column in rows.items()}]  # no views of all
        self._rows -= end

    def whole(self) -> Mapping[str, Column]:
        rest = joined(self._waiting)
        alone = self._writer is None
        self._write(rest)
        self._writer.close()
        self._stream.close()
        return rest if alone else Stored(self._file, tuple(rest))

    def _write(self, columns: Mapping[str, Column]) -> None:
        table = arrow_table(columns)
        if self._writer is None:
            self._stream = self._file.open("wb")  # Arrow takes names as text alone
            repeating = self._rows <= GROUP_ROWS or _repeating(columns)
            self._writer = pq.ParquetWriter(
                self._stream, table.schema, compression="zstd", use_dictionary=repeating
            )
        self._writer.write_table(table, row_group_size=GROUP_ROWS)


def write_table(columns: Mapping[str, Column], file: Path) -> None:
    """A whole table as a Parquet file."""
    growing = _Growing(file)
    growing.add(columns)
    growing.whole()


class Stored(Elsewhere):
    """The columns of a file that `Files` wrote."""

    def __init__(self, file: Path, names: tuple[str, ...]) -> None:
        self.file = file
        self._names = names

    def __getitem__(self, name: str) -> Column:
        if name not in self._names:
            raise KeyError(name)
        found: Column = np.concatenate([column for (column,) in self.parts((name,))])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def parts(self, names: tuple[str, ...]) -> Iterator[tuple[Column, ...]]:
        """These columns, some rows at a time."""
        with self.file.open("rb") as stream, pq.ParquetFile(stream, pre_buffer=False) as file:
            wanted = list(names)
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=wanted, use_threads=False):
                yield tuple(_column(batch.column(name)) for name in names)


def _repeating(columns: Mapping[str, Column]) -> list[str]:
    """Those worth a dictionary: at most half of their first values are new. Of instants Arrow would
    build one with all of a row group before giving up: longer than all else about a large file."""
    seen = 4_096
    return [k for k, values in columns.items() if 2 * len(np.unique(values[:seen])) <= seen]


def arrow_table(columns: Mapping[str, Column]) -> Any:
    """Columns as they are, uncopied; `status` is text by its number."""
    arrays = {}
    for name, values in columns.items():
        if name == "status":
            code = arrow_array(values.astype(np.int8))
            arrays[name] = pa.DictionaryArray.from_arrays(code, arrow_texts(STATUSES))
        else:
            arrays[name] = arrow_array(values)
    return pa.table(arrays)


def _column(array: Any) -> Column:
    """The inverse of `arrow_table`, of one column."""
    if isinstance(array, pa.DictionaryArray):
        code = np.array([STATUSES.index(text) for text in array.dictionary.to_pylist()], np.int64)
        statuses: Column = code[plain(array.indices)]
        return statuses
    return plain(array)
