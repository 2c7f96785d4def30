"""JSON as columns: by Arrow where each line is an object, else through Python's."""

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from workloads.incoming import parse_json
from workloads.readers.format import Rejected, Selection, require, types_of
from workloads.readers.records import flat
from workloads.readers.source import Source

_ROWS = 10_000
_BLOCK_BYTES = 4 << 20  # one line must fit: long prompts list thousands of blocks


def of_chunk(source: Source, selection: Selection, lines: bytes) -> Any:
    """The columns of some lines, nested ones by their paths: by Arrow, or else by Python.

    Raises Rejected, or what Arrow raises of a type.
    """
    import pyarrow as pa

    try:
        return _arrow(lines, selection)
    except pa.ArrowInvalid:
        text = io.TextIOWrapper(io.BytesIO(lines), encoding="utf-8-sig", newline="")
        return _table(_flat(text), selection)


def _arrow(lines: bytes, selection: Selection) -> Any:
    """Raises what Arrow does, also for what it would read otherwise than Python."""
    import pyarrow as pa
    from pyarrow import json

    types = types_of(selection)
    table = json.read_json(
        pa.BufferReader(lines),
        read_options=json.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=json.ParseOptions(
            explicit_schema=pa.schema(_fields(types)), unexpected_field_behavior="ignore"
        ),
    )
    if _has_a_key_twice(lines, selection, len(table)):
        raise pa.ArrowInvalid("Arrow takes the last of two equal keys")
    if not any("." in name for name in types):
        return table
    columns = {name: _at(table, name.split(".")) for name in types}
    if any(column.null_count for column in columns.values()):
        raise pa.ArrowInvalid("a name with a dot in it, or a missing value")
    return pa.table(columns)


def _fields(types: dict[str, Any]) -> list[Any]:
    """Arrow's fields of these names, where a dot leads into a struct."""
    import pyarrow as pa

    inner: dict[str, dict[str, Any]] = {}
    fields = []
    for name, kind in types.items():
        first, dot, rest = name.partition(".")
        if dot:
            inner.setdefault(first, {})[rest] = kind
        else:
            fields.append(pa.field(name, kind))
    fields += [pa.field(first, pa.struct(_fields(kinds))) for first, kinds in inner.items()]
    return fields


def _at(table: Any, path: list[str]) -> Any:
    import pyarrow.compute as pc

    column = table[path[0]]
    return pc.struct_field(column, path[1:]) if len(path) > 1 else column


def _has_a_key_twice(lines: bytes, selection: Selection, rows: int) -> bool:
    """Whether a column may be there twice in a row: its name stands more often than rows."""
    names = dict.fromkeys(part for name in selection.columns for part in name.split("."))
    return any(lines.count(f'"{name}"'.encode()) > rows for name in names)


def by_python(source: Source, selection: Selection) -> Any:
    """The columns of whole documents. Raises Rejected, or what Arrow raises of a type."""
    return _table(source.records(), selection)


def _table(rows: Iterator[dict[str, Any]], selection: Selection) -> Any:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [] for name in selection.columns}
    while some := list(islice(rows, _ROWS)):
        for name, values in columns.items():
            found = [row.get(name) for row in some]
            require(bool not in set(map(type, found)))  # Arrow would take it for a number
            values += found
    try:
        if (arrival := selection.arrival) and arrival.unit in ("s", "ms", "us"):
            given = columns[arrival.column]  # a whole number may be beyond 64 bits here
            columns[arrival.column] = [float(v) if type(v) is int else v for v in given]
        return pa.table({name: pa.array(values) for name, values in columns.items()})
    except (TypeError, OverflowError) as error:
        raise Rejected(str(error)) from None


def flat_lines(source: Source) -> Iterator[dict[str, Any]]:
    """Each line's object, flat. Raises Rejected."""
    with source.text() as lines:
        yield from _flat(lines)


def _flat(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.strip():
            try:
                row = parse_json(line.encode())
            except ValueError as error:
                raise Rejected(str(error)) from None
            require(isinstance(row, dict))
            yield flat(row)
