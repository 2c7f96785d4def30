"""Sessions in a table: rows that name a session, or a chat and the one that it goes on from."""

import csv
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from workloads.errors import InputError
from workloads.incoming import shown
from workloads.readers.format import TICKS_PER_SECOND, Thread
from workloads.readers.json_table import flat_lines
from workloads.readers.source import Source, explained
from workloads.schema import Floats, Ints, Turns

NOBODY = ("", "-1", "None")
"""How logs write that there is no session, or nothing to go on from."""


def turns_of(source: Source, thread: Thread, rows: Ints, arrival_s: Floats) -> tuple[Turns, str]:
    """Who waits for whom among these rows (m,) of the file, in order of arrival, and a note.

    A row waits for the latest one of its session, or for the chat that it names; one that the file
    lacks, or has later, is nobody's. The pause is what lies between the stamps, less the time that
    the answer took where the file says so. Raises InputError.
    """
    with explained(source.label):
        keys = [_key(source, thread.id, number, one) for number, one in _column(source, thread.id)]
        parents = None
        if thread.parent is not None:
            parents = [
                _key(source, thread.parent, number, one)
                for number, one in _column(source, thread.parent)
            ]
        took = np.zeros(len(keys))
        if (elapsed := thread.elapsed) is not None and elapsed.column in source.columns:
            took[:] = [
                _seconds(source, elapsed.column, number, one)
                for number, one in _column(source, elapsed.column)
            ]
            took /= TICKS_PER_SECOND[elapsed.unit]
    if len(rows) and len(keys) <= int(rows.max()):
        raise InputError(f"{source.label}: {thread.id}: {len(keys):,} values, expected one a row")
    of_rows = [keys[row] for row in rows.tolist()]
    asked = of_rows if parents is None else [parents[row] for row in rows.tolist()]
    before = _before(of_rows, asked)
    session, turn = np.empty(len(rows), np.int64), np.zeros(len(rows), np.int64)
    count = 0
    for row, parent in enumerate(before.tolist()):
        if parent < 0:
            session[row], count = count, count + 1
        else:
            session[row], turn[row] = session[parent], turn[parent] + 1
    waits = before >= 0
    gaps = arrival_s - np.where(waits, arrival_s[before] + took[rows][before], arrival_s)
    turns = Turns(
        session=session,
        turn=turn,
        offsets=np.concatenate(([0], np.cumsum(waits))),
        after=before[waits],
        delay_s=np.maximum(gaps, 0.0),
    )
    timed = "" if took.any() else "; answers take no time in the record, so pauses hold theirs"
    return turns, f"{count:,} sessions by {thread.id}; later turns follow answers{timed}"


def _before(keys: list[str], asked: list[str]) -> Ints:
    """The row (m,) that each waits for: the latest of the key it asks for; -1 for nobody."""
    latest: dict[str, int] = {}
    before = np.full(len(keys), -1, dtype=np.int64)
    for row, (key, wanted) in enumerate(zip(keys, asked, strict=True)):
        if wanted:
            before[row] = latest.get(wanted, -1)
        if key:
            latest[key] = row
    return before


def _key(source: Source, name: str, number: int, value: Any) -> str:
    """What names a session or a chat; empty where nothing does."""
    if isinstance(value, bool | list | dict):
        raise InputError(
            f"{source.label}: row {number}: {name} is {shown(value)}, expected a name or a number"
        )
    text = str(value).strip()
    return "" if text in NOBODY else text


def _seconds(source: Source, name: str, number: int, value: Any) -> float:
    """A duration in the file's unit; 0 where the file leaves it out."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return 0.0
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, TypeError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(
            f"{source.label}: row {number}: {name} is {shown(value)}, expected a number >= 0"
        )
    return seconds


def _column(source: Source, name: str) -> Iterator[tuple[int, Any]]:
    """Each row's number, from 1, and its value."""
    return enumerate(_VALUES[source.kind](source, name), 1)


def _of_csv(source: Source, name: str) -> Iterator[Any]:
    place = source.columns.index(name)
    with source.text() as text:
        rows = (fields for fields in csv.reader(text, delimiter=source.delimiter) if fields)
        next(rows)
        for fields in rows:
            yield fields[place] if place < len(fields) else None


def _of_lines(source: Source, name: str) -> Iterator[Any]:
    """By Arrow where all are whole numbers or all are text; it is fifty times as fast."""
    import pyarrow as pa
    from pyarrow import json

    for kind in () if "." in name else (pa.int64(), pa.string()):
        try:
            with source.stream() as stream:
                table = json.read_json(
                    stream,
                    read_options=json.ReadOptions(block_size=16 << 20),
                    parse_options=json.ParseOptions(
                        explicit_schema=pa.schema([(name, kind)]),
                        unexpected_field_behavior="ignore",
                    ),
                )
        except pa.ArrowInvalid:
            continue
        return iter(table[name].to_pylist())
    return (row.get(name) for row in flat_lines(source))


def _of_records(source: Source, name: str) -> Iterator[Any]:
    return (row.get(name) for row in source.records())


def _of_parquet(source: Source, name: str) -> Iterator[Any]:
    return iter(source.parquet().read(columns=[name])[name].to_pylist())


_VALUES = {
    "csv": _of_csv,
    "jsonl": _of_lines,
    "records": _of_records,
    "documents": _of_records,
    "parquet": _of_parquet,
}
