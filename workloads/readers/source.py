"""A trace file as found: its compression, its kind and its columns, all told by its content."""

import csv
import io
import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from workloads.errors import InputError
from workloads.readers import records

Kind = Literal["csv", "jsonl", "records", "documents", "parquet"]

_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_HEAD_BYTES = 4096
_PASSED_BYTES = 1 << 20
_FIRST_ROWS = 50
_FIRST_ROWS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A readable file. `label` is what messages call it; `columns` are in file order.

    Of JSON they are the paths of the first object's fields, nested ones included.
    """

    path: Path
    label: str
    kind: Kind
    codec: str | None
    columns: tuple[str, ...]
    delimiter: str = ","
    content: Any = field(default=None, repr=False, compare=False)
    """Of JSON that is not one row a line: what it holds, read once; of `records` a list of it."""

    def stream(self, start: int = 0) -> Any:
        """A new pyarrow stream of the decompressed bytes from one of them on."""
        return _stream(self.path, self.codec, start)

    def text(self, start: int = 0) -> io.TextIOWrapper:
        """A new stream of the decompressed text from a byte on, without its byte order mark."""
        return _text(self.path, self.codec, start)

    def records(self) -> Iterator[dict[str, Any]]:
        """The flat records of a JSON document that is not one object a line."""
        contents = self.content if self.kind == "records" else [self.content]
        for content in contents:
            yield from records.unpacked(content, self.label)

    def parquet(self) -> Any:
        """The file as a pyarrow ParquetFile."""
        return _parquet(self.path, self.codec)


def open_source(path: Path, label: str, of_rows: Collection[frozenset[str]] = ()) -> Source:
    """Look at a file's head. Raises InputError where it can't be a table of any known kind.

    `of_rows` are sets of fields; a JSON object that has all of one is a row.
    """
    with explained(label):
        codec = _codec(path)
        with _stream(path, codec) as stream:
            head = _head(stream)
        kind = _kind(head, label)
        if kind == "parquet":
            return Source(path, label, kind, codec, tuple(_parquet(path, codec).schema_arrow.names))
        with _text(path, codec) as text:
            lines = (line for line in text if line.strip())
            first = next(lines, "")
            alone = next(lines, None) is None
        if not first:
            raise InputError(f"{label}: is empty, expected a trace")
        if kind == "csv":
            delimiter = _delimiter(first)
            names = next(csv.reader([first], delimiter=delimiter), [])
            return Source(path, label, kind, codec, tuple(n.strip() for n in names), delimiter)
        row = _object(first, label) if kind == "jsonl" else None
        if row is not None and not records.is_document(row, alone, of_rows):
            return Source(path, label, kind, codec, _names(_first_rows(path, codec, row)))
        with _text(path, codec) as text:
            if row is None:
                contents = [records.parsed(text.read(), label)]
            else:  # a document a line, as exporters of spans append them
                contents = [records.parsed(line, label) for line in text if line.strip()]
        content = contents[0]
        if records.holds_sessions(content):
            first = content[0] if isinstance(content, list) else content
            return Source(
                path, label, "documents", codec, tuple(records.flat(first)), content=content
            )
        rows = islice(records.unpacked(content, label), _FIRST_ROWS)
        return Source(path, label, "records", codec, _names(rows), content=contents)


@contextmanager
def explained(label: str) -> Iterator[None]:
    """Turn what an unreadable file raises into an InputError that names it."""
    import pyarrow as pa

    try:
        yield
    except MemoryError:  # Arrow's own is also one of its errors
        raise
    except FileNotFoundError:
        raise InputError(f"{label}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{label}: is a directory, expected a file") from None
    except PermissionError:
        raise InputError(f"{label}: no permission to read it") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{label}: is not UTF-8 text ({error.reason})") from None
    except (OSError, csv.Error, pa.ArrowException) as error:
        if is_shortage(error):
            raise MemoryError from None
        reason = first_line(error)
        raise InputError(f"{label}: damaged or unreadable: {reason}") from None


def first_line(error: Exception) -> str:
    """What it says, without advice in further lines."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def is_shortage(error: Exception) -> bool:
    """Whether Arrow says of memory or threads, in an error of another kind, that there is none."""
    return any(sign in str(error) for sign in ("malloc", "Failed to launch worker thread"))


def _head(stream: Any) -> bytes:
    """The first bytes from the first that isn't blank."""
    mark = b""
    while chunk := bytes(stream.read(_HEAD_BYTES)):
        mark = mark or chunk[:3]
        if chunk.removeprefix(b"\xef\xbb\xbf").strip():
            return chunk
    return mark


def _codec(path: Path) -> str | None:
    with path.open("rb") as raw:
        magic = raw.read(4)
    return next((codec for mark, codec in _CODECS.items() if magic.startswith(mark)), None)


def _kind(head: bytes, label: str) -> Kind:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{label}: is UTF-16 text, expected UTF-8")
    if b"\0" in head:
        raise InputError(f"{label}: neither text nor Parquet, expected CSV, JSON Lines or Parquet")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if not start:
        raise InputError(f"{label}: is empty, expected a trace")
    if start == b"[":
        return "records"
    return "jsonl" if start == b"{" else "csv"


def _delimiter(header: str) -> str:
    """What separates the header's names: a comma, or where there is none a semicolon or a tab."""
    return next((one for one in ",;\t" if one in header), ",")


def _object(line: str, label: str) -> dict[str, Any] | None:
    """The object of a line; None where one of several lines begins."""
    try:
        row = json.loads(line)
    except RecursionError:
        raise InputError(f"{label}: line 1: nested too deep, expected one object a line") from None
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _first_rows(path: Path, codec: str | None, first: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The first objects, as far as they are short: not all need have all fields."""
    yield records.flat(first)
    left = _FIRST_ROWS_BYTES
    with _text(path, codec) as text:
        for line in islice((line for line in text if line.strip()), 1, _FIRST_ROWS):
            left -= len(line)
            if left < 0:
                return
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # whoever reads it says what is wrong
                return
            if isinstance(row, dict):
                yield records.flat(row)


def _names(rows: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    """Fields of any of the rows, in order of appearance."""
    return tuple(dict.fromkeys(name for row in rows for name in row))


def _stream(path: Path, codec: str | None, start: int = 0) -> Any:
    import pyarrow as pa

    # Arrow takes names as text alone, and `~` for the home; bytes go to the system as they are
    file = pa.OSFile(os.fsencode(path))
    stream = file if codec is None else pa.CompressedInputStream(file, codec)
    while start and (passed := len(stream.read(min(start, _PASSED_BYTES)))):
        start -= passed
    return stream


def _text(path: Path, codec: str | None, start: int = 0) -> io.TextIOWrapper:
    return io.TextIOWrapper(_stream(path, codec, start), encoding="utf-8-sig", newline="")


def _parquet(path: Path, codec: str | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if codec is None:
        return pq.ParquetFile(_stream(path, None))
    with _stream(path, codec) as stream:
        return pq.ParquetFile(pa.BufferReader(stream.read()))
