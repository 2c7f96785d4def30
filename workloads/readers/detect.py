"""Chooses a format by the columns a file has."""

from collections import Counter

from workloads.errors import InputError
from workloads.incoming import shown
from workloads.readers import azure, bailian, burstgpt, lengths, logs, mooncake, own, vllm
from workloads.readers.format import Selection, TraceFormat
from workloads.readers.named_columns import parse_columns
from workloads.readers.source import Source

MOST_LISTED = 20
"""Columns of a file that a message names."""

FORMATS: tuple[TraceFormat, ...] = (
    own.FORMAT,
    azure.FORMAT,
    mooncake.FORMAT,
    bailian.FORMAT,
    burstgpt.FORMAT,
    vllm.NANOSECONDS,
    vllm.SECONDS,
    lengths.FORMAT,
    *logs.FORMATS,
)


def choose(source: Source, name: str | None = None, columns: str | None = None) -> TraceFormat:
    """The format that `columns` describes, or the one called `name`, or of those that fit the one
    with most required columns."""
    found = set(source.columns)
    if not found:
        raise InputError(
            f"{source.label}: has no rows with any field, expected at least one request"
        )
    if columns is not None:
        described = parse_columns(columns)
        if missing := [one for one in described.required if one not in found]:
            raise InputError(
                f"{source.label}: --columns names {missing[0]!r}, found: {_listed(source)}"
            )
        return described
    if name is None:
        fitting = [fmt for fmt in FORMATS if found.issuperset(fmt.required)]
        if fitting:
            return max(fitting, key=lambda fmt: len(fmt.required))
        needs = "; ".join(f"{fmt.name}: {', '.join(fmt.required)}" for fmt in FORMATS)
        raise InputError(
            f"{source.label}: no known trace format has these columns: {_listed(source)}."
            " --columns arrival=NAME:UNIT,prompt=NAME,output=NAME reads any (docs/traces.md)."
            f" Formats and the columns they need: {needs}"
        )
    for fmt in FORMATS:
        if fmt.name == name:
            missing = [column for column in fmt.required if column not in found]
            if missing:
                raise InputError(
                    f"{source.label}: format {name} needs the column {missing[0]!r},"
                    f" found: {_listed(source)}"
                )
            return fmt
    known = ", ".join(fmt.name for fmt in FORMATS)
    raise InputError(f"{source.label}: unknown format {name!r}, expected one of: {known}")


def fields_of_rows(columns: str | None) -> list[frozenset[str]]:
    """What a row has of the format that `columns` describes, or of any known one."""
    formats = FORMATS if columns is None else (parse_columns(columns),)
    return [frozenset(fmt.required) for fmt in formats]


def select(source: Source, fmt: TraceFormat, block_tokens: int | None = None) -> Selection:
    """The columns to load; `block_tokens` replaces the size the format or the file states."""
    if block_tokens is not None and block_tokens < 1:
        raise InputError(f"block_tokens is {block_tokens}, expected a whole number >= 1")
    hash_ids = fmt.hash_ids if fmt.hash_ids in source.columns else None
    block_column = None
    if hash_ids is not None and block_tokens is None:
        if isinstance(fmt.block_tokens, int):
            block_tokens = fmt.block_tokens
        elif fmt.block_tokens in source.columns:
            block_column = fmt.block_tokens
        else:
            raise InputError(
                f"{source.label}: the column {hash_ids!r} needs the column {fmt.block_tokens!r},"
                f" the tokens in a block, found: {_listed(source)}"
            )
    selection = Selection(
        arrival=fmt.arrival,
        prompt=fmt.prompt,
        output=fmt.output,
        hash_ids=hash_ids,
        block_column=block_column,
        block_tokens=block_tokens if hash_ids is not None else None,
        failed_rows=fmt.failed_rows,
    )
    times = Counter(source.columns)
    for column in selection.columns:
        if times[column] > 1:
            raise InputError(
                f"{source.label}: the column {column!r} is there {times[column]} times"
            )
    return selection


def _listed(source: Source) -> str:
    more = f" and {len(source.columns) - MOST_LISTED} more" * (len(source.columns) > MOST_LISTED)
    return ", ".join(map(shown, source.columns[:MOST_LISTED])) + more
