"""Which prompts of a measured run begin alike: the ids of their blocks, from a file of JSON lines.

A line a request, in the order of requests.jsonl: `hash_ids` names the prompt's full blocks, each
id a hash of its block and all before it, so that equal ids mean equal beginnings. A trailing id of
a partial block may stand behind them (Mooncake's files have one).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.measured.run import Measured
from workloads.errors import InputError
from workloads.incoming import read_json_lines
from workloads.schema import PrefixBlocks

FILE = "hash_ids.jsonl"
NONE = "none"


def with_prefixes(
    measured: Measured, name_or_path: str | None, block_tokens: int | None = None
) -> Measured:
    """The run with the prompts' blocks of that file; "none" takes away those that it recorded.

    Blocks are of `block_tokens`, or of as many as the record says.
    """
    if name_or_path is None:
        return measured
    if name_or_path == NONE:
        return replace(measured, trace=replace(measured.trace, prefix=None))
    return read_prefixes(Path(name_or_path), measured, block_tokens)


def knowledge(measured: Measured) -> str:
    """In words: what a prediction of this run may know of its prompts."""
    if measured.trace.prefix is None:
        return "lengths only: prompts are taken to share nothing"
    return "prompts share the beginnings that their block ids tell"


def read_prefixes(file: Path, measured: Measured, block_tokens: int | None = None) -> Measured:
    """The run with its prompts' blocks. Raises InputError naming file and line."""
    trace, block_tokens = measured.trace, block_tokens or measured.block_tokens
    lines = read_json_lines(file, f"--prefixes {file}")
    rows = trace.provenance.rows_read
    if len(lines) != rows:
        raise InputError(
            f"--prefixes {file}: {len(lines)} lines, expected one for each of {rows} requests"
        )
    given = [_ids(file, number, line) for number, line in enumerate(lines, 1)]
    unique = 1 + max((max(ids) for ids in given if ids), default=0)
    ids: list[int] = []
    offsets = [0]
    prompts = trace.prompt_tokens.tolist()
    for line_index, prompt in zip(measured.recorded_row.tolist(), prompts, strict=True):
        full, whole = prompt // block_tokens, -(-prompt // block_tokens)
        known = given[line_index]
        if len(known) not in (full, whole):
            raise InputError(
                f"--prefixes {file}, line {line_index + 1}: {len(known)} hash_ids, expected "
                f"{full}, one for each full block of {block_tokens} tokens of a prompt of {prompt}"
            )
        ids += known
        if len(known) < whole:  # the last, partial block is this prompt's alone
            ids.append(unique)
            unique += 1
        offsets.append(len(ids))
    blocks = PrefixBlocks(
        block_tokens, np.array(offsets, dtype=np.int64), np.array(ids, dtype=np.int64)
    )
    return replace(measured, trace=replace(trace, prefix=blocks))


def _ids(file: Path, number: int, line: Any) -> list[int]:
    ids = line.get("hash_ids") if isinstance(line, dict) else None
    if not isinstance(ids, list) or not all(type(one) is int and 0 <= one < 2**62 for one in ids):
        raise InputError(
            f'--prefixes {file}, line {number}: expected {{"hash_ids": [0, 1, …]}}, whole numbers'
        )
    return ids
