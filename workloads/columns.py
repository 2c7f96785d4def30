"""The gate for Parquet tables that come in: named columns of a kind, as numpy arrays."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.spool import ROWS, spooled

LONG_ROWS = 1 << 18
"""Of a table whose columns may lie in temporary files."""

Kind = Literal["whole", "number", "time", "text"]
"""Integers; finite numbers; finite numbers or null, which becomes NaN; text."""

EXPECTED = {
    "whole": "whole numbers",
    "number": "finite numbers",
    "time": "finite numbers, or null where there is none",
    "text": "text",
}


def read_columns(
    file: Path,
    kinds: Mapping[str, Kind],
    what: str,
    optional: Mapping[str, Kind] | None = None,
    *,
    spool: bool = False,
) -> tuple[dict[str, NDArray[Any]], dict[bytes, bytes]]:
    """The columns (n,) by name, and the file's own metadata. `what` says what was expected.

    Whole numbers are int64, numbers and times float64, text numpy's own. Columns of `optional` may
    be absent, others are not read. With `spool` those of a long table are read-only and lie in
    temporary files (`workloads.spool`). Raises InputError naming file and column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = {**kinds, **(optional or {})}
    try:
        # Arrow takes names as text alone; bytes go to the system as they are
        with pa.OSFile(os.fsencode(file)) as stream, pq.ParquetFile(stream) as parquet:
            present = parquet.schema_arrow.names
            for name in wanted:
                if present.count(name) != 1 and (name in kinds or name in present):
                    times = "no" if name not in present else "more than one"
                    raise InputError(f"{file}: {times} column {name!r}, expected {what}")
            metadata = dict(parquet.schema_arrow.metadata or {})
            long = spool and parquet.metadata.num_rows >= LONG_ROWS
            found = {}
            for name, kind in wanted.items():  # one by one, for Arrow's columns are copied
                if name in present:
                    column = _spooled(file, parquet, name, kind) if long else None
                    if column is None:
                        column = _array(file, name, parquet.read(columns=[name])[name], kind)
                    found[name] = column
                    if len(column) != (rows := parquet.metadata.num_rows):
                        raise InputError(
                            f"{file}: column {name!r} ends after {len(column):,} of {rows:,} rows, "
                            f"expected a whole file: {what}"
                        )
    except MemoryError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        first = (str(reason).splitlines() or ["unreadable"])[0]
        raise InputError(f"{file}: {first}, expected a Parquet file: {what}") from None
    return found, metadata


def _spooled(file: Path, parquet: Any, name: str, kind: Kind) -> NDArray[Any] | None:
    """A column that is looked at by parts; None where there is no room, or it is not of its kind:
    of the whole it is said better what is wrong."""
    parts = _texts if kind == "text" else _batches
    with suppress(OSError, InputError):
        return spooled(parts(file, parquet, name, kind))
    return None


def _batches(file: Path, parquet: Any, name: str, kind: Kind) -> Iterator[NDArray[Any]]:
    import pyarrow as pa

    for batch in parquet.iter_batches(ROWS, columns=[name]):
        yield _array(file, name, pa.chunked_array([batch.column(0)]), kind)


def _texts(file: Path, parquet: Any, name: str, kind: Kind) -> Iterator[NDArray[Any]]:
    """Equally wide, each made where its number stands."""
    import pyarrow as pa

    from workloads.arrow import plain

    column = parquet.read(columns=[name])[name]
    if column.null_count or not pa.types.is_dictionary(column.type):
        yield _array(file, name, column, kind)
        return
    texts = [_array(file, name, chunk.dictionary, kind) for chunk in column.chunks]
    widest = np.result_type(*texts)
    for text, chunk in zip(texts, column.chunks, strict=True):
        yield text.astype(widest)[plain(chunk.indices)]


def _array(file: Path, name: str, column: Any, kind: Kind) -> NDArray[Any]:
    import pyarrow as pa

    from workloads.arrow import plain  # late: as Arrow itself

    types = pa.types
    wrong = f"{file}: column {name!r}: expected {EXPECTED[kind]}"
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == "text":
        if column.null_count or not (
            types.is_string(column.type) or types.is_large_string(column.type)
        ):
            raise InputError(f"{wrong}, found {_found(column)}")
        return np.array(column.to_pylist(), dtype=np.str_)
    fits = types.is_integer(column.type) or (kind != "whole" and types.is_floating(column.type))
    if not fits:
        raise InputError(f"{wrong}, found {_found(column)}")
    if column.null_count and kind != "time":
        raise InputError(f"{wrong}, found {_found(column)}")
    target = pa.int64() if kind == "whole" else pa.float64()
    try:
        if column.type != target:
            column = column.cast(target, safe=kind == "whole")
    except pa.ArrowInvalid:
        raise InputError(f"{wrong} below 2^63") from None
    dtype = np.int64 if kind == "whole" else np.float64
    array: NDArray[Any] = np.concatenate([np.empty(0, dtype), *map(plain, column.chunks)])
    if kind == "number" and not np.isfinite(array).all():
        raise InputError(f"{wrong}, found NaN or infinity")
    if kind == "time" and np.isinf(array).any():
        raise InputError(f"{wrong}, found infinity")
    return array


def _found(column: Any) -> str:
    return f"{column.null_count} nulls" if column.null_count else f"type {column.type}"
