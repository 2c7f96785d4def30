"""A trace's rows as Python numbers, some at a time."""

from collections.abc import Iterator
from itertools import chain, repeat

import numpy as np

from workloads.schema import Floats, Ints, PrefixBlocks, Trace

AS_PER_NS = 10**9
NEVER = 2**127  # later than any clock will say

Row = tuple[int, int, int, int, tuple[int, list[int]] | None]
"""Number, arrival in nanoseconds, prompt, output, and the prompt's published blocks."""


def nanoseconds(seconds: Floats) -> Ints:
    """Arrivals are counted in whole ones."""
    return (seconds * 1e9).round().astype(np.int64)


def prompt_blocks(prefix: PrefixBlocks, row: int) -> tuple[int, list[int]]:
    """A request's published block size and ids."""
    start, end = prefix.offsets[row], prefix.offsets[row + 1]
    return prefix.block_tokens, prefix.ids[start:end].tolist()


def rows_of(trace: Trace) -> Iterator[Row]:
    """Every row, made by the thousand: a long trace is never there as Python's numbers at once."""
    return chain.from_iterable(_slices(trace))


def _slices(trace: Trace) -> Iterator[Iterator[Row]]:
    blocks = trace.prefix
    for start in range(0, len(trace), 1000):
        part = slice(start, start + 1000)
        arrivals_ns = nanoseconds(trace.arrival_s[part]).tolist()
        prompts, outputs = trace.prompt_tokens[part].tolist(), trace.output_tokens[part].tolist()
        rows = range(start, start + len(prompts))
        found = (prompt_blocks(blocks, row) for row in rows) if blocks else repeat(None)
        yield zip(rows, arrivals_ns, prompts, outputs, found, strict=False)
