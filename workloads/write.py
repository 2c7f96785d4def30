"""Writes a trace in the project's own schema, whole or not at all."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workloads.console import json_text
from workloads.errors import InputError
from workloads.places import locked, resolved
from workloads.schema import Trace


def write_trace(trace: Trace, path: Path) -> None:
    """Write CSV, JSON Lines or Parquet by the suffix of `path`, replacing what is there.

    A trace with turns becomes conversations, one a line (`workloads.readers.conversations`). The
    same trace gives the same bytes, and reading them gives the same columns. Name and
    provenance are not written. Raises InputError for another suffix or an unwritable place.
    """
    writer = _WRITERS.get(path.suffix)
    if trace.turns is not None:
        from workloads.write_conversations import conversation_lines

        if path.suffix != ".jsonl":
            raise InputError(f"{path}: sessions are written as conversations, expected .jsonl")
        lines = conversation_lines(trace, trace.turns)
        with replacing(path) as unfinished:
            unfinished.write_text("".join(lines), encoding="utf-8", newline="\n")
        return
    if writer is None:
        raise InputError(f"{path}: unknown suffix, expected one of: {', '.join(_WRITERS)}")
    with replacing(path) as unfinished:
        writer(trace, unfinished)


def write_recipe(trace: Trace, steps: list[str], path: Path) -> None:
    """Beside the trace at `path`: where it came from and each step that made it, as JSON."""
    made = trace.provenance
    content = {
        "source": made.source,
        "steps": steps,
        "notes": list(made.notes),
        "rows_read": made.rows_read,
        "dropped": made.dropped,
        "requests": len(trace),
    }
    with replacing(path.with_name(f"{path.name}.recipe.json")) as unfinished:
        unfinished.write_text(json_text(content) + "\n", encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes the place of `path` only if all went well.

    A symlink stays one, and what a killed writer left is written over. Raises InputError where the
    system refuses, and while another process writes the same file.
    """
    place = resolved(path)
    unfinished = place.with_name(f".{place.name}.kvtwin-part")
    try:
        with locked(unfinished, path, os.O_RDWR | os.O_CREAT):
            try:
                yield unfinished
                os.replace(unfinished, place)
            finally:
                with suppress(FileNotFoundError):
                    unfinished.unlink()
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _csv(trace: Trace, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    table = _table(trace)
    if trace.prefix is not None:
        texts = [" ".join(map(str, ids)) for ids in table["hash_ids"].to_pylist()]
        table = table.set_column(table.num_columns - 1, "hash_ids", pa.array(texts))
    with path.open("wb") as file:
        # pyarrow would put the column names in quotes.
        file.write((",".join(table.column_names) + "\n").encode())
        csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style="none"))


def _jsonl(trace: Trace, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for batch in _table(trace).to_batches(max_chunksize=65_536):
            file.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())


def _parquet(trace: Trace, path: Path) -> None:
    import pyarrow.parquet as pq

    with path.open("wb") as file:  # Arrow takes names as text, and `~` for the home
        pq.write_table(_table(trace), file, compression="zstd")


_WRITERS: dict[str, Callable[[Trace, Path], None]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}


def _table(trace: Trace) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {
        "arrival_s": pa.array(trace.arrival_s),
        "prompt_tokens": pa.array(trace.prompt_tokens),
        "output_tokens": pa.array(trace.output_tokens),
    }
    if trace.prefix is not None:
        blocks = trace.prefix
        columns["block_tokens"] = pa.repeat(pa.scalar(blocks.block_tokens, pa.int64()), len(trace))
        columns["hash_ids"] = pa.LargeListArray.from_arrays(blocks.offsets, blocks.ids)
    return pa.table(columns)
