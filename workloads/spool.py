"""Columns of long tables in temporary files: mapped, they are read where somebody looks at them.

The files have no names, so nothing is left of them, however the process ends.
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from workloads.schema import Trace

ROWS = 1 << 16
"""Of a trace that are looked at together."""
LATEST = 3
"""Columns of a table."""


class Spool:
    """A column that grows in a file."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # until `close`

    def add(self, values: NDArray[Any]) -> None:
        """Further values."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)

    def column(self) -> NDArray[Any]:
        """All of them, at least one, read-only."""
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._dtype)

    def close(self) -> None:
        """Nothing more comes; the column stays."""
        self._file.close()


def spooled(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Parts of a column, of one type and with a value at least, as one that is mapped."""
    rest = iter(parts)
    first = next(rest)
    with closing(Spool(first.dtype)) as spool:
        spool.add(first)
        for part in rest:
            spool.add(part)
        return spool.column()


def slices(trace: Trace) -> Iterator[slice]:
    """The rows of a trace, some at a time; mapped columns leave memory after each."""
    for start in range(0, len(trace), ROWS):
        yield slice(start, start + ROWS)
        forget(trace)


def forget(trace: Trace) -> None:
    """Mapped columns leave memory, until somebody looks at them again."""
    for column in (trace.arrival_s, trace.prompt_tokens, trace.output_tokens):
        _leave(column)


def parts(columns: Mapping[str, NDArray[Any]], *names: str) -> Iterator[tuple[NDArray[Any], ...]]:
    """Rows of these columns, some at a time; mapped ones leave memory after each."""
    found = [columns[name] for name in names]
    for start in range(0, len(found[0]), ROWS):
        yield tuple(column[start : start + ROWS] for column in found)
        for column in found:
            _leave(column)


def gathered(count: int, found: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """At most `count` values, which come in parts, as one array of its own."""
    values, at = np.empty(count), 0  # what isn't reached takes no memory
    for part in found:
        values[at : at + len(part)] = part
        at += len(part)
    return values[:at]


def finite(count: int, found: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """As `gathered`, without those that are not finite."""
    return gathered(count, (part[np.isfinite(part)] for part in found))


def _leave(column: NDArray[Any]) -> None:
    owner: Any = column
    while isinstance(owner, np.ndarray):
        owner = owner.base
    mapped = owner.obj if isinstance(owner, memoryview) else None
    if isinstance(mapped, mmap.mmap) and hasattr(mapped, "madvise"):  # not on Windows
        mapped.madvise(mmap.MADV_DONTNEED)


class Latest(Mapping[str, NDArray[Any]]):
    """Columns by name. Of mapped ones, those that were asked for last are in memory."""

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = columns
        self._latest: list[str] = []
        for column in columns.values():
            _leave(column)

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        if name in self._latest:
            self._latest.remove(name)
        elif len(self._latest) == LATEST:
            _leave(self._columns[self._latest.pop(0)])
        self._latest.append(name)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
