"""The fast path: loads a file's columns with pyarrow, typed, and checks them whole.

It says only that something is wrong; `fault` then says where.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.readers import chunks, csv_table, json_table
from workloads.readers.format import (
    TICKS_PER_SECOND,
    Rejected,
    Selection,
    Unit,
    require,
)
from workloads.readers.source import Source, first_line, is_shortage
from workloads.readers.stamps import (
    FIRST_YEAR,
    LAST_YEAR,
    PATTERN,
    has_offset,
    plain_nanoseconds,
)
from workloads.schema import Floats, Ints, PrefixBlocks

FEW_STAMPS = 1 << 15
"""Up to here Python is quicker than the import of Arrow's functions."""

_EXACT = 2**53  # the whole numbers that a double holds


@dataclass(frozen=True, slots=True)
class Columns:
    """Checked rows in file order. arrival (n,) in the format's own unit, None without arrivals."""

    arrival: Ints | Floats | None
    prompt: Ints  # (n,) >= 1, or >= 0 where the format publishes failed rows
    output: Ints  # (n,) >= 0
    prefix: PrefixBlocks | None


def load(source: Source, selection: Selection) -> Columns:
    """Read and check all rows. Raises Rejected where any value is missing, wrong or impossible."""
    import pyarrow as pa

    try:
        if source.kind not in chunks.KINDS:
            return checked(_LOADERS[source.kind](source, selection), selection)
        try:
            return chunks.load(source, selection, checked)
        except chunks.Unsplittable:
            return checked(csv_table.whole(source, selection), selection)
    except MemoryError:  # Arrow's own is also one of its errors
        raise
    except pa.ArrowException as error:
        if is_shortage(error):
            raise MemoryError from None
        raise Rejected(first_line(error)) from error


def checked(table: Any, selection: Selection) -> Columns:
    """The columns of a table. Raises Rejected, or what Arrow raises of a type."""
    import pyarrow as pa

    try:
        table = _failed_as_zero(table, selection)
        for column in table.columns:
            require(column.null_count == 0)
        prompt, output = (_tokens(table[name]) for name in (selection.prompt, selection.output))
        require(bool((prompt >= (0 if selection.failed_rows else 1)).all()))
        require(bool((output >= 0).all()))
        arrival = None
        if selection.arrival is not None:
            arrival = _arrival(table[selection.arrival.column], selection.arrival.unit)
        return Columns(arrival, prompt, output, _prefix(table, selection, prompt))
    except OverflowError as error:
        raise Rejected(str(error)) from None
    except pa.ArrowKeyError as error:
        raise Rejected(first_line(error)) from None


def _failed_as_zero(table: Any, selection: Selection) -> Any:
    """Where failed requests are published, one that says neither count is one of them.

    It need not say when it came, either; then it is given another's time, and dropped in the end.
    """
    counts = (selection.prompt, selection.output)
    if not (selection.failed_rows and all(table[name].null_count for name in counts)):
        return table
    import pyarrow.compute as pc  # late: it takes as long as a thousand requests

    silent = pc.and_(*(pc.is_null(table[name]) for name in counts))
    for name in counts:
        filled = pc.if_else(silent, 0, table[name])
        table = table.set_column(table.column_names.index(name), name, filled)
    if selection.arrival is None:
        return table
    name, unit = selection.arrival.column, selection.arrival.unit
    return table.set_column(table.column_names.index(name), name, _timed(table[name], unit, silent))


def _timed(arrival: Any, unit: Unit, silent: Any) -> Any:
    """The arrivals, where none is said and the request is silent the first that is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    none = pc.is_null(arrival)
    if pa.types.is_string(arrival.type) or pa.types.is_large_string(arrival.type):
        none = pc.or_(none, pc.equal(pc.utf8_trim_whitespace(pc.fill_null(arrival, "")), ""))
    said = arrival.filter(pc.invert(none))
    any_other = said[0] if len(said) else "2000-01-01 00:00:00" if unit == "stamp" else 0
    return pc.if_else(pc.and_(silent, none), any_other, arrival)


def good_rows(source: Source, selection: Selection) -> int:
    """How many rows stand before the first batch that isn't as the format says.

    Batches pass the same checks as the whole file, so the search for a fault may begin behind them.
    """
    import pyarrow as pa

    rows = 0
    try:
        for batch in _BATCHES.get(source.kind, _no_batches)(source, selection):
            checked(batch, selection)
            rows += batch.num_rows
    except MemoryError:
        raise
    except (Rejected, pa.ArrowException):
        return rows
    return 0  # what is wrong lies between batches


def _parquet_batches(source: Source, selection: Selection) -> Iterator[Any]:
    import pyarrow as pa

    for batch in source.parquet().iter_batches(columns=selection.columns):
        yield pa.Table.from_batches([batch])


def _no_batches(source: Source, selection: Selection) -> Iterator[Any]:
    return iter(())


def seconds_from_first(arrival: Ints | Floats, unit: Unit) -> Floats:
    """Arrivals (n,), non-decreasing, as seconds since the first.

    The difference is taken in the file's own unit, whole numbers as integers, so that the only
    rounding is that of the one division.
    """
    return seconds_since(arrival, arrival[0], unit)


def seconds_since(arrival: Ints | Floats, first: Any, unit: Unit) -> Floats:
    """As `seconds_from_first`, of some of the rows."""
    return np.asarray((arrival - first) / TICKS_PER_SECOND[unit], dtype=np.float64)


def _parquet(source: Source, selection: Selection) -> Any:
    return source.parquet().read(columns=selection.columns)


_LOADERS = {
    "records": json_table.by_python,
    "documents": json_table.by_python,
    "parquet": _parquet,
}
_BATCHES = {"csv": csv_table.batches, "parquet": _parquet_batches}


def _values(column: Any, kind: Any) -> NDArray[Any]:
    """Of the kind float64 or int64."""
    import pyarrow as pa

    if column.type != kind:  # a cast imports pyarrow.compute, worth a thousand requests' time
        column = column.cast(kind)
    # pyarrow 17 would import pandas to name the type
    none = np.empty(0, np.float64 if kind == pa.float64() else np.int64)
    found: NDArray[Any] = np.concatenate([none, *map(_view, column.chunks)])
    return found


def _view(chunk: Any) -> Any:
    # Arrow's own to_numpy imports pandas, which takes longer than reading most traces.
    return np.from_dlpack(chunk)


def _tokens(column: Any) -> Ints:
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        values = _values(column, pa.float64())
        require(bool(((np.abs(values) <= _EXACT) & (values == np.rint(values))).all()))
        return values.astype(np.int64)
    require(pa.types.is_integer(column.type))
    return _values(column, pa.int64())


def _arrival(column: Any, unit: Unit) -> Ints | Floats:
    import pyarrow as pa

    if unit == "stamp":
        texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if texts and len(column) <= FEW_STAMPS:
            found = plain_nanoseconds(column.to_pylist())
            if found is not None:
                return found
        import pyarrow.compute as pc  # late: it takes as long as a thousand requests

        if texts:
            # Arrow refuses a mix: a type with a zone needs an offset, one without forbids it.
            column = pc.utf8_trim_whitespace(column)
            require(pc.all(pc.match_substring_regex(column, f"^({PATTERN})$")).as_py() is not False)
            years = pc.min_max(pc.utf8_slice_codeunits(column, 0, 4).cast(pa.int32())).as_py()
            if years["min"] is not None:  # outside of these, nanoseconds would wrap
                require(FIRST_YEAR <= years["min"] <= years["max"] <= LAST_YEAR)
            zone = "UTC" if len(column) and has_offset(column[0].as_py()) else None
            column = column.cast(pa.timestamp("ns", zone))
        require(pa.types.is_timestamp(column.type))
        zone = column.type.tz
        return _values(column.cast(pa.timestamp("ns", zone)), pa.int64())
    if unit == "ns":
        nanoseconds = _tokens(column)
        require(bool((nanoseconds >= 0).all()))
        return nanoseconds
    require(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    values = _values(column, pa.float64())
    require(bool((np.isfinite(values) & (values >= 0)).all()))
    return values


def _prefix(table: Any, selection: Selection, prompt: Ints) -> PrefixBlocks | None:
    if selection.hash_ids is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc  # late: it takes as long as a thousand requests

    block_tokens = selection.block_tokens
    if selection.block_column is not None:
        stated = np.unique(_tokens(table[selection.block_column]))
        require(len(stated) == 1 and int(stated[0]) >= 1)
        block_tokens = int(stated[0])
    assert block_tokens is not None, "select() settles the block size with the column"
    column = table[selection.hash_ids]
    if pa.types.is_string(column.type):
        column = pc.split_pattern(column, " ")
    require(pa.types.is_list(column.type) or pa.types.is_large_list(column.type))
    counts = _values(pc.list_value_length(column), pa.int64())
    require(bool((counts == -(-prompt // block_tokens)).all()))
    flat = pc.list_flatten(column)
    require(flat.null_count == 0)
    require(pa.types.is_integer(flat.type) or pa.types.is_string(flat.type))
    ids = _values(flat, pa.int64())
    return PrefixBlocks(block_tokens, np.concatenate(([0], np.cumsum(counts))), ids)
