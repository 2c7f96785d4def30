"""Columns of long traces in temporary files: mapped, they are read where somebody looks at them.

The files have no names, so nothing is left of them, however the process ends.
"""

import mmap
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from workloads.schema import Trace

ROWS = 1 << 16
"""Of a trace that are looked at together."""


class Spool:
    """A column that grows in a file."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # until `close`

    def add(self, values: NDArray[Any]) -> None:
        """Further values."""
        self._file.write(np.ascontiguousarray(values, self._dtype))

    def column(self) -> NDArray[Any]:
        """All of them, at least one, read-only."""
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._dtype)

    def close(self) -> None:
        """Nothing more comes; the column stays."""
        self._file.close()


def slices(trace: Trace) -> Iterator[slice]:
    """The rows of a trace, some at a time; mapped columns leave memory after each."""
    for start in range(0, len(trace), ROWS):
        yield slice(start, start + ROWS)
        forget(trace)


def forget(trace: Trace) -> None:
    """Mapped columns leave memory, until somebody looks at them again."""
    for column in (trace.arrival_s, trace.prompt_tokens, trace.output_tokens):
        owner: Any = column
        while isinstance(owner, np.ndarray):
            owner = owner.base
        mapped = owner.obj if isinstance(owner, memoryview) else None
        if isinstance(mapped, mmap.mmap) and hasattr(mapped, "madvise"):  # not on Windows
            mapped.madvise(mmap.MADV_DONTNEED)
