"""Long tables, read by batches into temporary files, so that no column need be in memory.

Only what needs no second look: lengths and instants alone, rows in order of arrival. Anything else,
faults included, is left to whoever reads the table whole.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import numpy as np

from workloads.readers import csv_table, table
from workloads.readers.format import Rejected, Selection
from workloads.readers.source import Source
from workloads.schema import Floats, Ints
from workloads.spool import ROWS, Spool

LEAST_ROWS = 1 << 18
"""Of a Parquet file that is read so; shorter ones take little memory."""
LEAST_BYTES = 1 << 23
"""Of a CSV file, uncompressed."""
KINDS = (np.float64, np.int64, np.int64)
"""Of arrivals, prompts and outputs."""


class Long(NamedTuple):
    """Usable rows in order of arrival."""

    arrival_s: Floats
    prompt: Ints
    output: Ints
    rows_read: int
    no_prompt: int  # dropped
    no_output: int  # dropped, with a prompt


def read_long(source: Source, selection: Selection) -> Long | None:
    """The columns, mapped; None for a table that is short or has to be read whole."""
    import pyarrow as pa

    if selection.arrival is None or selection.hash_ids is not None:
        return None
    if selection.arrival.unit == "stamp":  # whether all have an offset is seen of the whole
        return None
    try:
        with ExitStack() as stack:
            spools = [stack.enter_context(closing(Spool(kind))) for kind in KINDS]
            return _spooled(source, selection, *spools) if _is_long(source) else None
    except (Rejected, OSError, pa.ArrowException):  # or the disk is full
        return None


def _is_long(source: Source) -> bool:
    if source.kind == "parquet":
        return bool(source.parquet().metadata.num_rows >= LEAST_ROWS)
    plain = source.kind == "csv" and source.codec is None
    return (
        plain
        and source.path.stat().st_size >= LEAST_BYTES
        and not csv_table.mentions_hexadecimal(source)
    )


def _spooled(
    source: Source, selection: Selection, arrivals: Spool, prompts: Spool, outputs: Spool
) -> Long | None:
    assert selection.arrival is not None, "there are arrivals"
    rows = kept = no_prompt = no_output = 0
    first = latest = None
    for batch in _batches(source, selection):
        columns = table.checked(batch, selection)
        assert columns.arrival is not None, "there are arrivals"
        empty, silent = columns.prompt == 0, columns.output == 0
        there = ~(empty | silent)
        rows += len(there)
        no_prompt += int(empty.sum())
        no_output += int((silent & ~empty).sum())
        arrival = columns.arrival[there]
        if not len(arrival):
            continue
        first = arrival[0] if first is None else first
        if (latest is not None and arrival[0] < latest) or (arrival[1:] < arrival[:-1]).any():
            return None
        latest = arrival[-1]
        kept += len(arrival)
        arrivals.add(table.seconds_since(arrival, first, selection.arrival.unit))
        prompts.add(columns.prompt[there])
        outputs.add(columns.output[there])
    if not kept:
        return None
    return Long(arrivals.column(), prompts.column(), outputs.column(), rows, no_prompt, no_output)


def _batches(source: Source, selection: Selection) -> Iterator[Any]:
    import pyarrow as pa

    if source.kind == "parquet":
        for batch in source.parquet().iter_batches(ROWS, columns=selection.columns):
            yield pa.Table.from_batches([batch])
    else:
        yield from csv_table.typed_batches(source, selection)
