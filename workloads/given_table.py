"""A data frame, or columns by name, as a file: what Python holds passes the gate that files do."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from workloads.errors import InputError

NAME = "given"
"""What the trace is called, and what messages call it."""


def is_table(value: Any) -> bool:
    """Whether it is a mapping of columns or a pandas data frame."""
    pandas = sys.modules.get("pandas")  # nobody has a frame who hasn't loaded it
    return isinstance(value, Mapping) or (
        pandas is not None and isinstance(value, pandas.DataFrame)
    )


@contextmanager
def as_file(columns: Any) -> Iterator[Path]:
    """A Parquet file of the columns (n,) while it is needed.

    Raises InputError for a column that is no row of values, or not as long as the first.
    """
    import pyarrow.parquet as pq

    table = _table(columns)
    with TemporaryDirectory(prefix="kvtwin-") as folder:
        file = Path(folder) / f"{NAME}.parquet"
        pq.write_table(table, file)
        yield file


def _table(columns: Any) -> Any:
    import pyarrow as pa

    found: dict[str, Any] = {}
    for name in columns:
        where = f"{NAME}: column {str(name)!r}"
        try:
            values = columns[name]
            # numpy's way, for pandas' would make nulls of NaN; lists of lists stay as they are
            found[str(name)] = pa.array(values if isinstance(values, list) else np.asarray(values))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise InputError(f"{where}: expected numbers, times or text, all of a kind") from None
        first = next(iter(found.values()))
        if len(found[str(name)]) != len(first):
            raise InputError(f"{where}: has {len(found[str(name)])} rows, expected {len(first)}")
    if not found:
        raise InputError(f"{NAME}: has no columns, expected a trace")
    return pa.table(found)
