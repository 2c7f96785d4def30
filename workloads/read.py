"""Any trace, by path or by the name of a shipped one, as requests."""

from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from workloads import prefix as prefix_blocks
from workloads.catalog import SHIPPED, shipped
from workloads.errors import InputError
from workloads.outgoing import encodable
from workloads.readers import chains, detect, documents, fault, table
from workloads.readers.format import Selection
from workloads.readers.source import explained, open_source
from workloads.schema import Ints, Provenance, Trace, freeze


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


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a file held: its columns, which rows are kept (in file order), and what was dropped."""

    name: str
    label: str
    selection: Selection
    columns: table.Columns
    kept: Ints  # (m,) row numbers, m >= 1
    dropped: dict[str, int]
    reader: str


def read_trace(
    path_or_name: str | PathLike[str],
    *,
    format: str | None = None,
    block_tokens: int | None = None,
    columns: str | None = None,
) -> Trace:
    """Read a trace: a shipped one by name, or a CSV, JSON Lines or Parquet file.

    The format is told by the file's columns, gzip and zstd by its first bytes; `format` names one
    outright, `columns` says which columns hold what (`workloads.readers.named_columns`).
    `block_tokens` replaces the size of a prefix block where a file departs from its
    format's. Requests without output tokens are dropped and counted in the provenance, as are
    the failed requests some formats publish; rows out of order are sorted, ties keep file order;
    the first kept request is at 0.0 s. Raises InputError, naming file, line and field.
    """
    trace = read_any(path_or_name, format=format, block_tokens=block_tokens, columns=columns)
    if isinstance(trace, Lengths):
        raise InputError(
            f"{trace.provenance.source}: has lengths but no arrival times, expected a trace;"
            " `traces generate --lengths` draws requests from it"
        )
    return trace


def read_lengths(path_or_name: str | PathLike[str], *, format: str | None = None) -> Lengths:
    """Read only the lengths, of a trace or of a file that has no arrivals. Drops as read_trace."""
    return _lengths(_read(path_or_name, format, None))


def read_any(
    path_or_name: str | PathLike[str],
    *,
    format: str | None = None,
    block_tokens: int | None = None,
    columns: str | None = None,
) -> Trace | Lengths:
    """Read as read_trace does, or only lengths where the file has no arrivals."""
    if columns is None and (sessions := _sessions(path_or_name, format)) is not None:
        return sessions
    rows = _read(path_or_name, format, block_tokens, columns)
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
    return Trace(
        name=rows.name,
        arrival_s=table.seconds_from_first(arrival, selection.arrival.unit),
        prompt_tokens=read.prompt[order],
        output_tokens=read.output[order],
        provenance=Provenance(rows.label, len(read.prompt), rows.dropped, notes, rows.reader),
        prefix=None if read.prefix is None else prefix_blocks.pick(read.prefix, order),
    )


def _sessions(path_or_name: str | PathLike[str], format: str | None) -> Trace | None:
    """The trace, where the place holds conversations or chains of requests; else None."""
    given = fspath(path_or_name)
    path, label = _place(given), encodable(given)
    if format not in (None, "conversations", "sessions") or not path.exists():
        return None
    name = encodable(path.name.split(".")[0]) if shipped(label) is None else label
    if documents.holds_documents(path):
        found = documents.documents_in(path, label)
    else:
        source = open_source(path, label)
        if source.kind != "jsonl":
            return None
        if chains.is_chain(source.columns):
            return chains.read_chains(documents.documents_of(source), name, label)
        if not documents.KEYS.issubset(source.columns):
            return None
        found = documents.documents_of(source)
    from workloads.readers.conversations import read_conversations  # late: it needs pydantic

    return read_conversations(found, name, label)


def _place(label: str) -> Path:
    entry = shipped(label)
    return Path(label) if entry is None else entry.path


def _lengths(rows: _Rows) -> Lengths:
    return Lengths(
        name=rows.name,
        prompt_tokens=rows.columns.prompt[rows.kept],
        output_tokens=rows.columns.output[rows.kept],
        provenance=Provenance(
            rows.label, len(rows.columns.prompt), rows.dropped, reader=rows.reader
        ),
    )


def _read(
    path_or_name: str | PathLike[str],
    format: str | None,
    block_tokens: int | None,
    named: str | None = None,
) -> _Rows:
    given = fspath(path_or_name)
    entry, label = shipped(given), encodable(given)
    path = Path(given) if entry is None else entry.path
    if entry is None and not path.exists():
        names = ", ".join(known.name for known in SHIPPED)
        raise InputError(f"{label}: no such file, nor a shipped trace; those are: {names}")
    source = open_source(path, label)
    chosen = detect.choose(source, format, named)
    selection = detect.select(source, chosen, block_tokens)
    try:
        with explained(label):
            columns = table.load(source, selection)
    except table.Rejected as rejected:
        raise fault.locate(source, selection, str(rejected)) from None
    if len(columns.prompt) == 0:
        raise InputError(f"{label}: has no rows, expected at least one request")
    no_prompt = columns.prompt == 0
    no_output = (columns.output == 0) & ~no_prompt
    reasons = {
        "failed request: zero prompt tokens": int(no_prompt.sum()),
        "zero output tokens": int(no_output.sum()),
    }
    dropped = {reason: count for reason, count in reasons.items() if count}
    kept = np.flatnonzero(~(no_prompt | no_output))
    if len(kept) == 0:
        listed = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
        raise InputError(f"{label}: no usable request among {len(no_prompt)} rows: {listed}")
    name = encodable(path.name.split(".")[0]) if entry is None else entry.name
    reader = f"{chosen.name}: has {', '.join(chosen.required)}"
    return _Rows(name, label, selection, columns, kept, dropped, reader)
