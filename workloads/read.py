"""Any trace, by path or by the name of a shipped one, as requests."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from workloads import given_table
from workloads import prefix as prefix_blocks
from workloads.catalog import SHIPPED, shipped
from workloads.errors import InputError
from workloads.given import check_arguments, said
from workloads.outgoing import encodable
from workloads.readers import chains, detect, documents, fault, records, table, threads
from workloads.readers.format import Rejected, Selection, TraceFormat
from workloads.readers.long import read_long
from workloads.readers.scopes import share_system
from workloads.readers.source import Source, explained, open_source
from workloads.reuse import Reuse, reuse_of
from workloads.schema import Ints, Provenance, Table, Trace, freeze

if TYPE_CHECKING:
    from workloads.readers.conversations import Found

Scope: TypeAlias = Literal["recorded", "system"]
"""Of conversations' block ids: as they are, or tools and system prompts in common."""

SESSIONS = ("conversations", "sessions")
"""Formats that are no tables."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Pairs of prompt and output length (n,), n >= 1, both >= 1 token, in file order."""

    name: str
    prompt_tokens: Ints
    output_tokens: Ints
    provenance: Provenance

    def __post_init__(self) -> None:
        freeze(self.prompt_tokens, self.output_tokens)

    def __len__(self) -> int:
        return len(self.prompt_tokens)


class _Place(NamedTuple):
    """Where a trace is, what messages call it, and its own name."""

    path: Path
    label: str
    name: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a file held: its columns, which rows are kept (in file order), and what was dropped."""

    place: _Place
    source: Source
    chosen: TraceFormat
    selection: Selection
    columns: table.Columns
    kept: Ints  # (m,) row numbers, m >= 1
    dropped: dict[str, int]
    reader: str


def read_trace(
    path_or_name: str | PathLike[str] | Table,
    *,
    format: str | None = None,
    block_tokens: int | None = None,
    columns: str | None = None,
    prefix_scope: Scope = "recorded",
) -> Trace:
    """Read a trace: a shipped one by name, a CSV, JSON Lines or Parquet file, or the same columns
    as a pandas data frame or a mapping of arrays by name (arrival_s, prompt_tokens, output_tokens).

    The format is told by the file's columns, gzip and zstd by its first bytes; `format` names one
    outright, `columns` says which columns hold what (`workloads.readers.named_columns`).
    `block_tokens` replaces the size of a prefix block where a file departs from its format's;
    `prefix_scope` "system" gives conversations with equal tools and system prompt the same ids for
    them. Requests without output tokens are dropped and counted in the provenance, as are the
    failed requests some formats publish; rows out of order are sorted, ties keep file order; the
    first kept request is at 0.0 s. Raises InputError, naming file, line and field.
    """
    given = check_arguments(read_trace, locals())
    trace = read_any(
        path_or_name,
        format=format,
        block_tokens=given["block_tokens"],
        columns=columns,
        prefix_scope=prefix_scope,
    )
    if isinstance(trace, Lengths):
        raise InputError(
            f"{trace.provenance.source}: has lengths but no arrival times, expected a trace;"
            " `traces generate --lengths` draws requests from it"
        )
    return trace


def read_lengths(path_or_name: str | PathLike[str], *, format: str | None = None) -> Lengths:
    """Read only the lengths, of a trace or of a file that has no arrivals. Drops as read_trace."""
    place = _place(path_or_name)
    return _lengths(_read(place, _source(place), format, None))


def read_any(
    path_or_name: str | PathLike[str] | Table,
    *,
    format: str | None = None,
    block_tokens: int | None = None,
    columns: str | None = None,
    prefix_scope: Scope = "recorded",
) -> Trace | Lengths:
    """Read as read_trace does, or only lengths where the file has no arrivals."""
    if given_table.is_table(path_or_name):
        with given_table.as_file(path_or_name) as file:
            place = _Place(file, given_table.NAME, given_table.NAME)
            return _found(place, format, block_tokens, columns, prefix_scope)
    return _found(_place(path_or_name), format, block_tokens, columns, prefix_scope)


def _found(
    place: _Place, format: str | None, block_tokens: int | None, columns: str | None, scope: Scope
) -> Trace | Lengths:
    source, find = _opened(place, format, columns, scope)
    if find is not None:
        from workloads.readers.conversations import read_conversations  # late: it needs pydantic

        return read_conversations(find(), place.name, place.label)
    return _requests(place, source, format, block_tokens, columns)


def read_counted(
    path_or_name: str | PathLike[str],
    *,
    format: str | None = None,
    block_tokens: int | None = None,
    columns: str | None = None,
    prefix_scope: Scope = "recorded",
) -> tuple[Trace | Lengths, Reuse | None]:
    """As read_any, with the reuse of prefix blocks counted; conversations' own are not kept.

    So a set of conversations takes the memory of its requests, not that of its blocks.
    """
    place = _place(path_or_name)
    source, find = _opened(place, format, columns, prefix_scope)
    if find is None:
        trace = _requests(place, source, format, block_tokens, columns)
        return trace, None if isinstance(trace, Lengths) else reuse_of(trace)
    from workloads.readers.conversations import count_conversations

    whole, reuse = count_conversations(find, place.name, place.label)
    return whole, reuse_of(whole) if reuse is None else reuse


def _place(path_or_name: Any) -> _Place:
    if not isinstance(path_or_name, str | PathLike) or path_or_name == "":
        raise InputError(
            f"trace {said(path_or_name)}: expected a path, a shipped trace's name, a Trace "
            "or a data frame of its columns"
        )
    given = fspath(path_or_name)
    entry, label = shipped(given), encodable(given)
    path = Path(given) if entry is None else entry.path
    if not path.exists():
        names = [known.name for known in SHIPPED]
        from difflib import get_close_matches  # late: few names are unknown

        close = get_close_matches(label.lower(), names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"those are: {', '.join(names)}"
        raise InputError(f"{label}: no such file, nor a shipped trace; {hint}")
    name = encodable(path.name.split(".")[0]) if entry is None else entry.name
    return _Place(path, label, name)


def _source(place: _Place, columns: str | None = None) -> Source:
    return open_source(place.path, place.label, detect.fields_of_rows(columns))


def _opened(
    place: _Place, format: str | None, columns: str | None, scope: Scope
) -> "tuple[Source | None, Callable[[], Found] | None]":
    """What the place holds, opened once: a source, or a way to find its conversations."""
    by_itself = columns is None and format in (None, *SESSIONS)
    source = None
    find: Callable[[], Found]
    if by_itself and documents.holds_documents(place.path):
        find = partial(documents.documents_in, place.path, place.label)
    else:
        source = _source(place, columns)
        if not (by_itself and records.CONVERSATION.issubset(source.columns)):
            if scope != "recorded":
                raise InputError(f"--prefix-scope {scope}: {place.label} holds no conversations")
            return source, None
        find = partial(documents.documents_of, source)
    if scope == "recorded":
        return None, find
    return None, lambda: share_system(iter(find()))


def _requests(
    place: _Place,
    source: Source | None,
    format: str | None,
    block_tokens: int | None,
    columns: str | None,
) -> Trace | Lengths:
    """Of chains and tables."""
    assert source is not None, "only conversations come without"
    chained = source.kind in ("jsonl", "documents") and records.is_chain(source.columns)
    if chained and columns is None and format in (None, *SESSIONS):
        return chains.read_chains(documents.documents_of(source), place.name, place.label)
    if (long := _long(place, source, format, block_tokens, columns)) is not None:
        return long
    rows = _read(place, source, format, block_tokens, columns)
    read, selection = rows.columns, rows.selection
    if selection.arrival is None or read.arrival is None:
        return _lengths(rows)
    arrival = read.arrival[rows.kept]
    order = rows.kept
    notes: tuple[str, ...] = ()
    latest = np.maximum.accumulate(arrival)
    if late := int((arrival < latest).sum()):
        by_arrival = np.argsort(arrival, kind="stable")
        arrival, order = arrival[by_arrival], rows.kept[by_arrival]
        notes = (f"sorted by arrival: {late} rows were out of order",)
    arrival_s = table.seconds_from_first(arrival, selection.arrival.unit)
    turns = None
    thread = rows.chosen.thread
    if thread is not None and thread.fits(source.columns):
        turns, note = threads.turns_of(source, thread, order, arrival_s)
        notes = (*notes, note)
    return Trace(
        name=place.name,
        arrival_s=arrival_s,
        prompt_tokens=read.prompt[order],
        output_tokens=read.output[order],
        provenance=Provenance(place.label, len(read.prompt), rows.dropped, notes, rows.reader),
        prefix=None if read.prefix is None else prefix_blocks.pick(read.prefix, order),
        turns=turns,
    )


def _long(
    place: _Place,
    source: Source,
    format: str | None,
    block_tokens: int | None,
    columns: str | None,
) -> Trace | None:
    """A long table, its columns in temporary files; None where it is read whole."""
    chosen = detect.choose(source, format, columns)
    if chosen.thread is not None and chosen.thread.fits(source.columns):
        return None
    read = read_long(source, detect.select(source, chosen, block_tokens))
    if read is None:
        return None
    return Trace(
        name=place.name,
        arrival_s=read.arrival_s,
        prompt_tokens=read.prompt,
        output_tokens=read.output,
        provenance=Provenance(
            place.label,
            read.rows_read,
            _dropped(read.no_prompt, read.no_output),
            reader=_said(chosen),
        ),
    )


def _dropped(no_prompt: int, no_output: int) -> dict[str, int]:
    reasons = {"failed request: no prompt tokens": no_prompt, "zero output tokens": no_output}
    return {reason: count for reason, count in reasons.items() if count}


def _said(chosen: TraceFormat) -> str:
    return f"{chosen.name}: has {', '.join(chosen.required)}"


def _lengths(rows: _Rows) -> Lengths:
    return Lengths(
        name=rows.place.name,
        prompt_tokens=rows.columns.prompt[rows.kept],
        output_tokens=rows.columns.output[rows.kept],
        provenance=Provenance(
            rows.place.label, len(rows.columns.prompt), rows.dropped, reader=rows.reader
        ),
    )


def _read(
    place: _Place,
    source: Source,
    format: str | None,
    block_tokens: int | None,
    named: str | None = None,
) -> _Rows:
    label = place.label
    chosen = detect.choose(source, format, named)
    selection = detect.select(source, chosen, block_tokens)
    try:
        with explained(label):
            columns = table.load(source, selection)
    except Rejected as rejected:
        raise fault.locate(source, selection, rejected) from None
    if len(columns.prompt) == 0:
        raise InputError(f"{label}: has no rows, expected at least one request")
    no_prompt = columns.prompt == 0
    no_output = (columns.output == 0) & ~no_prompt
    dropped = _dropped(int(no_prompt.sum()), int(no_output.sum()))
    kept = np.flatnonzero(~(no_prompt | no_output))
    if len(kept) == 0:
        listed = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
        raise InputError(f"{label}: no usable request among {len(no_prompt)} rows: {listed}")
    return _Rows(place, source, chosen, selection, columns, kept, dropped, _said(chosen))
