"""A text file read by chunks of whole lines, where the fast way failed for the file as a whole.

A chunk that Arrow can't read is read the longer way, so that an odd row costs no more than its
chunk; the first chunk that holds a bad row says from where on to look for it.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from workloads.readers import csv_table, json_table
from workloads.readers.format import Position, Rejected, Selection
from workloads.readers.source import Source, first_line, is_shortage

_CHUNK_BYTES = 4 << 20
_NEAR_BYTES = 1 << 16

Check = Callable[[Any, Selection], object]
"""Of an Arrow table; raises Rejected, or what Arrow raises of a type."""


class Chunk(NamedTuple):
    """Whole lines, and where they begin."""

    start: Position
    content: bytes


class Unsplittable(Exception):
    """A line feed may stand inside of quotes, or isn't what ends a row."""


def read_by_chunks(source: Source, selection: Selection, check: Check) -> Any:
    """All rows as one Arrow table, each chunk of which passed the check.

    Raises Rejected with a place shortly before the first bad row, and Unsplittable.
    """
    import pyarrow as pa

    tables = []
    for chunk in _chunks(source):
        try:
            tables += _read(source, selection, check, chunk.content)
        except Rejected as rejected:
            raise Rejected(
                str(rejected), _narrowed(chunk, lambda part: _read(source, selection, check, part))
            ) from None
    if not tables:
        raise Rejected("no rows")
    return pa.concat_tables(tables, promote_options="permissive")


def _read(source: Source, selection: Selection, check: Check, rows: bytes) -> list[Any]:
    """The rows' table, if there are any. Raises Rejected."""
    import pyarrow as pa

    if not rows.strip():
        return []
    try:
        table = KINDS[source.kind](source, selection, rows)
        check(table, selection)
    except MemoryError:  # Arrow's own is also one of its errors
        raise
    except (UnicodeDecodeError, pa.ArrowException) as error:
        if is_shortage(error):
            raise MemoryError from None
        raise Rejected(first_line(error)) from None
    return [table]


def _narrowed(chunk: Chunk, read: Callable[[bytes], object]) -> Position:
    """Where what is wrong in the chunk begins, to within some rows, by halving it."""
    start, content = chunk
    while len(content) > _NEAR_BYTES and (half := content.rfind(b"\n", 0, len(content) // 2) + 1):
        if not _is_good(content[:half], read):
            content = content[:half]
        elif not _is_good(content[half:], read):
            start, content = _behind(start, content[:half]), content[half:]
        else:  # the halves don't go together
            break
    return start


def _is_good(content: bytes, read: Callable[[bytes], object]) -> bool:
    try:
        read(content)
    except Rejected:
        return False
    return True


def _chunks(source: Source) -> Iterator[Chunk]:
    start = Position()
    parts: list[bytes] = []
    with source.stream() as stream:
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
