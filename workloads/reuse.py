"""How often prefix blocks come again, request by request: all that a description needs of ids.

Block ids are most of a trace of conversations, so they are counted as they are read, conversation
by conversation, and needn't be kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from workloads import prefix as prefix_blocks
from workloads import turns as turn_lines
from workloads.schema import Ints, PrefixBlocks, Trace, freeze

_SPARSE = 1 << 22
"""Ids up to so many are looked up in a table as long as the largest, however few there are."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """Counts by request (n,), in the trace's order.

    `seen`: blocks in the leading run of ids that some earlier request has named. `reused`: those of
    its full blocks in the leading run of ids that its own line of requests has named; None for
    requests in no lines.
    """

    block_tokens: int
    blocks: Ints
    seen: Ints
    full: Ints
    reused: Ints | None
    unique_blocks: int

    def __post_init__(self) -> None:
        freeze(self.blocks, self.seen, self.full)


def reuse_of(trace: Trace) -> Reuse | None:
    """Of a trace in memory; None where it names no blocks."""
    prefix = trace.prefix
    if prefix is None:
        return None
    full = trace.prompt_tokens // prefix.block_tokens
    return Reuse(
        prefix.block_tokens,
        np.diff(prefix.offsets),
        prefix_blocks.seen_before(prefix),
        full,
        None if trace.turns is None else _in_lines(full, prefix, turn_lines.lines(trace.turns)),
        prefix_blocks.unique_blocks(prefix),
    )


def _in_lines(full: Ints, prefix: PrefixBlocks, line: Ints) -> Ints:
    """Leading full blocks that a cache of the line's own would hold."""
    reused = np.zeros_like(full)
    known: dict[int, set[int]] = {}
    for row, (blocks, start, own) in enumerate(
        zip(full.tolist(), prefix.offsets.tolist(), line.tolist(), strict=False)
    ):
        ids = prefix.ids[start : start + blocks].tolist()
        before = known.setdefault(own, set())
        reused[row] = next((at for at, one in enumerate(ids) if one not in before), blocks)
        before.update(ids)
    return reused


@dataclass(slots=True)
class Counter:
    """Counts conversations whose ids mean nothing outside them, one after another."""

    block_tokens: int = 0
    blocks: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    full: list[int] = field(default_factory=list)
    reused: list[int] = field(default_factory=list)
    unique_blocks: int = 0

    def add(
        self,
        prompts: Sequence[int],
        ids: Sequence[Ints],
        lines: Sequence[int],
        order: Sequence[int],
    ) -> None:
        """One conversation: prompts (n,), ids of each, the line each belongs to (from 0), and the
        order in which they come. A last block that has no id is nobody else's."""
        size = self.block_tokens
        dense, most = _dense(ids)
        anybody = np.zeros(most, dtype=bool)
        own = [np.zeros(most, dtype=bool) for _ in range(max(lines, default=-1) + 1)]
        seen, reused = [0] * len(order), [0] * len(order)
        for row in order:
            named, known = dense[row], own[lines[row]]
            full = named[: prompts[row] // size]
            seen[row], reused[row] = _leading(anybody[named]), _leading(known[full])
            anybody[named] = True
            known[full] = True
        self.seen += seen
        self.reused += reused
        self.full += [tokens // size for tokens in prompts]
        blocks = [-(-tokens // size) for tokens in prompts]
        self.blocks += blocks
        unnamed = sum(blocks) - sum(map(len, ids))
        self.unique_blocks += int(anybody.sum()) + unnamed

    def reuse(self, order: Ints) -> Reuse:
        """All that was counted, in this order of requests (n,)."""
        columns = (self.blocks, self.seen, self.full, self.reused)
        blocks, seen, full, reused = (np.array(one, dtype=np.int64)[order] for one in columns)
        return Reuse(self.block_tokens, blocks, seen, full, reused, self.unique_blocks)


def _leading(known: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> int:
    """How many stand before the first that isn't known."""
    return len(known) if known.all() else int(known.argmin())


def _dense(ids: Sequence[Ints]) -> tuple[list[Ints], int]:
    """The same ids or others in their place, and a number above all of them."""
    most = max((int(one.max(initial=-1)) for one in ids), default=-1) + 1
    named = sum(map(len, ids))
    if most <= max(_SPARSE, 8 * named):
        return list(ids), most
    _, numbered = np.unique(np.concatenate(ids), return_inverse=True)
    return np.split(numbered, np.cumsum([len(one) for one in ids])[:-1]), named
