"""A text file read by chunks of whole lines, so that what is wrong in it has a place.

A chunk that Arrow can't read is read the longer way: an odd row costs no more than its chunk. The
first chunk that holds a bad row is halved until some rows are left, for `fault` to walk.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from workloads.readers import csv_table, json_table
from workloads.readers.format import Position, Rejected, Selection
from workloads.readers.source import Source, first_line, is_shortage

Checked = TypeVar("Checked")
Check = Callable[[Any, Selection], Checked]
"""Of an Arrow table; raises Rejected, or what Arrow raises of a type."""

_BEGINNING = Position()
_CHUNK_BYTES = 16 << 20
_NEAR_BYTES = 1 << 16


class Chunk(NamedTuple):
    """Whole lines, and where they begin."""

    start: Position
    content: bytes


class Unsplittable(Exception):
    """A line feed may stand inside of quotes, or isn't what ends a row."""


def load(source: Source, selection: Selection, check: Check[Checked]) -> Checked:
    """All rows, checked together.

    Raises Rejected with a place shortly before the first bad row (none where chunks are good and
    don't go together), and Unsplittable.
    """
    import pyarrow as pa

    tables: list[tuple[Position, Any]] = []
    start: Position | None = None
    try:
        for start, content in _chunks(source):
            if content.strip():
                tables.append((start, KINDS[source.kind](source, selection, content)))
        start = None
        if not tables:
            raise Rejected("no rows")
        together = pa.concat_tables([table for _, table in tables], promote_options="permissive")
        return check(together, selection)
    except MemoryError:  # Arrow's own is also one of its errors
        raise
    except (Rejected, UnicodeDecodeError, pa.ArrowException) as error:
        if is_shortage(error):
            raise MemoryError from None
        bad = (at for at, table in tables if not _is_good(partial(check, table, selection)))
        start = next(bad, start)
        reason = str(error) and first_line(error)
        raise Rejected(reason, start and _narrowed(source, selection, check, start)) from None


def _narrowed(
    source: Source, selection: Selection, check: Check[Checked], start: Position
) -> Position:
    """Where what is wrong in the chunk there begins, to within some rows, by halving it."""

    def is_good(rows: bytes) -> bool:
        read = KINDS[source.kind]
        return not rows.strip() or _is_good(lambda: check(read(source, selection, rows), selection))

    start, content = next(_chunks(source, start))
    while len(content) > _NEAR_BYTES and (half := content.rfind(b"\n", 0, len(content) // 2) + 1):
        if not is_good(content[:half]):
            content = content[:half]
        elif not is_good(content[half:]):
            start, content = _behind(start, content[:half]), content[half:]
        else:  # the halves don't go together
            break
    return start


def _is_good(read: Callable[[], object]) -> bool:
    import pyarrow as pa

    try:
        read()
    except MemoryError:
        raise
    except (Rejected, UnicodeDecodeError, pa.ArrowException):
        return False
    return True


def _chunks(source: Source, start: Position = _BEGINNING) -> Iterator[Chunk]:
    """From a place on. Raises Unsplittable."""
    parts: list[bytes] = []
    with source.stream(start.byte) as stream:
        while read := bytes(stream.read(_CHUNK_BYTES)):
            end = read.rfind(b"\n") + 1
            if not end:
                parts.append(read)
                continue
            whole, parts = b"".join([*parts, read[:end]]), [read[end:]]
            chunk = _rows_of(source, Chunk(start, whole))
            yield chunk
            start = _behind(chunk.start, chunk.content)
    if last := b"".join(parts):
        yield _rows_of(source, Chunk(start, last))


def _rows_of(source: Source, chunk: Chunk) -> Chunk:
    """Without the header of CSV, the first line that isn't blank. Raises Unsplittable."""
    if source.kind != "csv":
        return chunk
    start, content = chunk
    if content.count(b"\r") > content.count(b"\r\n"):
        raise Unsplittable
    if start.byte == 0:
        blank = len(content) - len(content.removeprefix(b"\xef\xbb\xbf").lstrip())
        end = content.find(b"\n", blank) + 1 or len(content)
        start, content = _behind(start, content[:end]), content[end:]
    if b'"' in content:
        raise Unsplittable
    return Chunk(start, content)


def _behind(start: Position, content: bytes) -> Position:
    """Line ends count as for Python, which knows the old one of a lone carriage return."""
    lines = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
    return Position(start.lines + lines, start.byte + len(content))


KINDS = {"csv": csv_table.of_chunk, "jsonl": json_table.of_chunk}
"""Of files that have chunks."""
