"""CSV as columns, by Arrow: typed, or as text where a person's way of writing a number is odd."""

from collections.abc import Iterator
from typing import Any

from workloads.readers.format import Selection, require, types_of
from workloads.readers.source import Source, is_shortage

_BATCH_BYTES = 1 << 20
_PADS = ("", " ", "  ")  # a header's names may follow blanks, as in `a, b`


def whole(source: Source, selection: Selection) -> Any:
    """The columns of all rows; quotes may hold line ends. Raises what Arrow does."""
    import pyarrow as pa

    # Arrow takes 0x10 for 16, where a person may mean an identifier; as text it is refused.
    if not mentions_hexadecimal(source):
        try:
            with source.stream() as stream:
                return _read(stream, source, selection)
        except pa.ArrowInvalid as error:
            if is_shortage(error):
                raise
    with source.stream() as stream:
        return _from_text(_read(stream, source, selection, as_text=True), selection)


def of_chunk(source: Source, selection: Selection, rows: bytes) -> Any:
    """The columns of some rows without a header and without quotes.

    Numbers as Arrow reads them, or as text where a person writes blanks about them, or 10.0.
    """
    import pyarrow as pa

    header = list(source.columns)
    if b"0x" not in rows and b"0X" not in rows:
        try:
            return _read(pa.BufferReader(rows), source, selection, header=header)
        except pa.ArrowInvalid:
            pass
    table = _read(pa.BufferReader(rows), source, selection, as_text=True, header=header)
    return _from_text(table, selection)


def batches(source: Source, selection: Selection) -> Iterator[Any]:
    """The columns batch by batch."""
    import pyarrow as pa

    text = dict.fromkeys(types_of(selection), pa.string())
    for table in _batches(source, selection, text, newlines=True):
        yield _from_text(table, selection)


def typed_batches(source: Source, selection: Selection) -> Iterator[Any]:
    """The same, numbers as Arrow reads them. Raises what Arrow does."""
    yield from _batches(source, selection, types_of(selection), newlines=False)


def _batches(
    source: Source, selection: Selection, types: dict[str, Any], *, newlines: bool
) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    with source.stream() as stream:
        reader = csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=_BATCH_BYTES),
            parse_options=_parsing(source, newlines=newlines),
            convert_options=_converting(types),
        )
        for batch in reader:
            yield _selected(pa.Table.from_batches([batch]), selection)


def _read(
    stream: Any,
    source: Source,
    selection: Selection,
    *,
    as_text: bool = False,
    header: list[str] | None = None,
) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    types = types_of(selection)
    if selection.hash_ids is not None:
        types[selection.hash_ids] = pa.string()
    if as_text:
        types = dict.fromkeys(types, pa.string())
    table = csv.read_csv(
        stream,
        read_options=csv.ReadOptions(column_names=header),
        parse_options=_parsing(source, newlines=as_text and header is None),
        convert_options=_converting(types),
    )
    return _selected(table, selection)


def _parsing(source: Source, *, newlines: bool) -> Any:
    """Line ends inside quotes cost time, so they are looked for only where reading fails."""
    from pyarrow import csv

    return csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=newlines)


def _converting(types: dict[str, Any]) -> Any:
    from pyarrow import csv

    padded = {f"{pad}{name}": kind for name, kind in types.items() for pad in _PADS}
    return csv.ConvertOptions(column_types=padded, null_values=[""])


def _selected(table: Any, selection: Selection) -> Any:
    names = [name.strip() for name in table.column_names]
    return table.rename_columns(names).select(selection.columns)


def mentions_hexadecimal(source: Source) -> bool:
    """Whether 0x stands anywhere in the file."""
    last = b""
    with source.stream() as stream:
        while chunk := bytes(stream.read(_BATCH_BYTES)):
            if b"0x" in (window := (last + chunk).lower()):
                return True
            last = window[-1:]
    return False


def _from_text(table: Any, selection: Selection) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, kind in types_of(selection).items():
        column = pc.utf8_trim_whitespace(table[name])
        if selection.failed_rows and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            column = pc.if_else(pc.equal(column, ""), None, column)
        if pa.types.is_integer(kind):
            column = pc.replace_substring_regex(column, r"^(-?[0-9]+)\.0*$", r"\1")
            require(_all_match(column, r"^-?[0-9]+$"))
        elif pa.types.is_floating(kind):
            require(_all_match(column, r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"))
        if not pa.types.is_list(kind):
            table = table.set_column(table.column_names.index(name), name, column.cast(kind))
    return table


def _all_match(column: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return pc.all(pc.match_substring_regex(column, pattern)).as_py() is not False
