"""The careful path: walks a rejected file row by row to name the first fault."""

import csv
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from workloads.errors import InputError
from workloads.incoming import parse_json
from workloads.readers import table
from workloads.readers.format import Position, Rejected, Selection
from workloads.readers.records import flat
from workloads.readers.source import Source, explained
from workloads.readers.stamps import FIRST_YEAR, LAST_YEAR, has_offset, is_stamp

_WHOLE = re.compile(r"(-?\d{1,99})(\.0*)?", re.ASCII)
_EXACT = 2**53
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INT64_END = 1 << 63
_ROWS_A_BATCH = 65_536
_FIRST_ROWS = 1000
_LONGEST_FIELD = 1 << 30

Row = Mapping[str, Any]
# A check raises ValueError("<field> is <value>, expected ..."), as it sees rows in file order.
Check = Callable[[str, Row], object]


class _Cell(str):
    """A CSV field: text that may stand for a number. In other kinds text never does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(str(self))


class _Lines:
    """A text's lines but for those known to be good, and the number of the one given last.

    The first ones are always given: a check may compare others with them.
    """

    def __init__(self, source: Source, start: Position | None) -> None:
        self._source, self._start = source, start or Position()
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        with self._source.text() as text:
            for line in text:
                self.number += 1
                yield line
                if self.number == _FIRST_ROWS <= self._start.lines:
                    break
            else:
                return
        with self._source.text(self._start.byte) as text:
            self.number = self._start.lines
            for line in text:
                self.number += 1
                yield line


def locate(source: Source, selection: Selection, rejected: Rejected) -> InputError:
    """The error to raise for a file that the fast path refused."""
    checks = _checks(selection)
    rows = 0
    with explained(source.label):
        lines = _Lines(source, rejected.start)
        skipped = table.good_rows(source, selection) if rejected.start is None else 0
        for where, row in _ROWS[source.kind](source, selection, lines, skipped):
            if isinstance(row, str):
                return InputError(f"{source.label}: {where}: {row}")
            rows += 1
            if selection.failed_rows and all(_is_silent(row.get(n)) for n in selection.columns):
                continue
            for check in checks:
                try:
                    check(where, row)
                except ValueError as error:
                    return InputError(f"{source.label}: {where}: {error}")
    if rows == 0:
        return InputError(f"{source.label}: has no rows, expected at least one request")
    reason = str(rejected) or "unexpected column types"
    return InputError(f"{source.label}: cannot be read: {reason}")


def _is_known(row: int, skipped: int) -> bool:
    """Whether a row is known to be good; a check may compare others with the first ones."""
    return _FIRST_ROWS < row <= skipped


def _csv_rows(
    source: Source, selection: Selection, lines: _Lines, skipped: int
) -> Iterator[tuple[str, Row | str]]:
    header = source.columns
    # A prompt's blocks are one field; the default limit of 131,072 characters is too short.
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(lines, delimiter=source.delimiter)
    next(row for row in reader if row)
    rows = 0
    for fields in reader:
        if not fields:
            continue
        rows += 1
        if _is_known(rows, skipped):
            continue
        where = f"line {lines.number}"
        if len(fields) != len(header):
            yield where, f"has {len(fields)} fields, expected {len(header)} as in the header"
            return
        # An empty field is what other kinds call null.
        row: dict[str, Any] = {
            name: _Cell(value) if value else None
            for name, value in zip(header, fields, strict=True)
        }
        if selection.hash_ids is not None and row[selection.hash_ids] is not None:
            row[selection.hash_ids] = [*map(_Cell, row[selection.hash_ids].split(" "))]
        yield where, row


def _jsonl_rows(
    source: Source, selection: Selection, lines: _Lines, skipped: int
) -> Iterator[tuple[str, Row | str]]:
    for line in lines:
        if not line.strip():
            continue
        where = f"line {lines.number}"
        try:
            row = parse_json(line.encode())
        except ValueError as error:
            text_of = str(error)
            yield where, text_of if text_of.startswith("not JSON") else f"not JSON: {text_of}"
            return
        if not isinstance(row, dict):
            yield where, f"is {_shown(row)}, expected a JSON object"
            return
        yield where, flat(row)


def _record_rows(
    source: Source, selection: Selection, lines: _Lines, skipped: int
) -> Iterator[tuple[str, Row | str]]:
    for number, row in enumerate(source.records(), 1):
        yield f"record {number}", row


def _parquet_rows(
    source: Source, selection: Selection, lines: _Lines, skipped: int
) -> Iterator[tuple[str, Row | str]]:
    number = 0
    for batch in source.parquet().iter_batches(_ROWS_A_BATCH, columns=selection.columns):
        if _is_known(number + 1, skipped) and number + batch.num_rows <= skipped:
            number += batch.num_rows
            continue
        for row in _python(batch):
            number += 1
            yield f"row {number}", row


def _python(batch: Any) -> Iterator[Row | str]:
    try:
        yield from batch.to_pylist()
    except (OverflowError, ValueError):  # Python's calendar is shorter than Arrow's
        for number in range(batch.num_rows):
            try:
                yield batch.slice(number, 1).to_pylist()[0]
            except (OverflowError, ValueError):
                yield f"holds a time outside of the years {FIRST_YEAR} to {LAST_YEAR}"
                return


_ROWS = {
    "csv": _csv_rows,
    "jsonl": _jsonl_rows,
    "records": _record_rows,
    "documents": _record_rows,
    "parquet": _parquet_rows,
}


def _checks(selection: Selection) -> list[Check]:
    checks: list[Check] = []
    if selection.arrival is not None:
        column = selection.arrival.column
        match selection.arrival.unit:
            case "stamp":
                checks.append(_stamp_check(column))
            case "ns":
                checks.append(lambda _, row: whole(column, row.get(column), 0))
            case _:
                checks.append(lambda _, row: finite(column, row.get(column)))
    checks.append(lambda _, row: _counts(selection, row))
    if selection.hash_ids is not None:
        checks.append(_blocks_check(selection.hash_ids, selection))
    return checks


def _counts(selection: Selection, row: Row) -> None:
    prompt, output = row.get(selection.prompt), row.get(selection.output)
    if selection.failed_rows and _is_silent(prompt) and _is_silent(output):
        return
    whole(selection.prompt, prompt, 0 if selection.failed_rows else 1)
    whole(selection.output, output, 0)


def _is_silent(value: Any) -> bool:
    return value is None or (isinstance(value, _Cell) and not value.strip())


def _stamp_check(column: str) -> Check:
    first: tuple[str, bool] | None = None

    def check(where: str, row: Row) -> None:
        nonlocal first
        stamp = row.get(column)
        if isinstance(stamp, datetime) and FIRST_YEAR <= stamp.year <= LAST_YEAR:
            return
        if not isinstance(stamp, str) or not is_stamp(stamp.strip()):
            raise ValueError(
                f"{column} is {_shown(stamp)}, expected a time like 2023-11-16 18:17:03.9799600"
            )
        zoned = has_offset(stamp)
        first = first or (where, zoned)
        if zoned != first[1]:
            with_or_without = ("without", "with") if zoned else ("with", "without")
            raise ValueError(
                f"mixed clocks: {column} is {_shown(stamp)}, {with_or_without[1]} a UTC offset,"
                f" expected one {with_or_without[0]}, as on {first[0]}"
            )

    return check


def _blocks_check(column: str, selection: Selection) -> Check:
    first: tuple[str, int] | None = None

    def check(where: str, row: Row) -> None:
        nonlocal first
        block_tokens = selection.block_tokens
        if selection.block_column is not None:
            block_tokens = whole(selection.block_column, row.get(selection.block_column), 1)
            first = first or (where, block_tokens)
            if block_tokens != first[1]:
                raise ValueError(
                    f"{selection.block_column} is {block_tokens}, expected {first[1]},"
                    f" as on {first[0]}"
                )
        assert block_tokens is not None
        ids = row.get(column)
        if not isinstance(ids, list):
            raise ValueError(f"{column} is {_shown(ids)}, expected a list of whole numbers")
        for value in ids:
            whole(column, value, None)
        prompt = whole(selection.prompt, row.get(selection.prompt), 0)
        expected = -(-prompt // block_tokens)
        if len(ids) != expected:
            raise ValueError(
                f"{column} has {len(ids)} ids, expected {expected}:"
                f" {prompt} prompt tokens in blocks of {block_tokens}"
            )

    return check


def whole(column: str, value: Any, least: int | None) -> int:
    expected = "a whole number" + ("" if least is None else f" >= {least}")
    number: int | None = None
    if isinstance(value, _Cell) and (match := _WHOLE.fullmatch(value.strip())):
        number = int(match[1])
    elif isinstance(value, float) and abs(value) <= _EXACT and value.is_integer():
        number = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    if number is not None and number >= _INT64_END:
        raise ValueError(f"{column} is {_shown(value)}, expected a whole number below 2^63")
    if number is None or number < -_INT64_END:
        raise ValueError(f"{column} is {_shown(value)}, expected {expected}")
    if least is not None and number < least:
        raise ValueError(f"{column} is {number}, expected {expected}")
    return number


def finite(column: str, value: Any) -> None:
    number = math.nan
    if isinstance(value, _Cell):
        if _NUMBER.fullmatch(value.strip()):
            number = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # Unlike arithmetic, comparing an integer beyond every float with one doesn't overflow.
        number = float(value) if abs(value) <= sys.float_info.max else math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"{column} is {_shown(value)}, expected a finite number >= 0")


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
