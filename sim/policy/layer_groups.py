"""Paging for models whose layers keep different tokens, with one page for all of them."""

from typing import Any

from sim.policy.counting.pages import Pages
from sim.policy.counting.tallied import Tallied
from sim.policy.counting.windows import Windows
from sim.policy.manager import Pool
from sim.sequence import Sequence
from workloads.errors import InputError


class Windowed(Tallied):
    """Mixed into a paged manager: live tokens and reads of each group of layers, in bulk."""

    def count_groups(self, pool: Pool) -> None:
        """Called once, by the constructor of the class that mixes this in."""
        self.windows = Windows(pool.groups, pool.stored)

    def live_by_group(self) -> tuple[tuple[int, int], ...]:
        return self.windows.by_group(self.context + self.prefilled)

    def live_bytes(self) -> tuple[int, int]:
        """Of payload and of side data."""
        return self.windows.live_bytes(self.context + self.prefilled)

    def extend(self, seq: Sequence, tokens: int) -> None:
        self.windows.keep(seq.stored, -1)
        super().extend(seq, tokens)
        self.windows.keep(seq.stored, 1)

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        self.windows.join(seq.stored, self.tick)

    def growable(self, limit: int) -> int:
        return super().growable(self.windows.linear_for(limit, self.tick))

    def grow(self, steps: int) -> None:
        super().grow(steps)
        self.windows.advance(steps, self.tick)

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        self.windows.rest(seq.stored, self.tick)

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        self.windows.keep(seq.stored, -1)

    def reads(self) -> tuple[int, int]:
        return self.windows.reads(self.context, self.decoding)


class UnifiedPages(Windowed, Pages):
    """One block table for all layers: a block stays while any layer needs it.

    What windowed layers hold outside of their windows is `internal`.
    """

    def __init__(self, pool: Pool, block_size: int, watermark: float) -> None:
        super().__init__(pool, block_size, watermark)
        if not pool.groups:
            raise InputError("paging:layers=unified: expected a pool that knows the model's layers")
        self.count_groups(pool)

    def tally(self) -> tuple[int, ...]:
        return self.live_bytes() + super().tally()

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        live, side, *counts = tally
        whole, _, internal, remainder, metadata, *rest = super().uses(tuple(counts))
        dead = whole + metadata - live - side
        return live, 0, internal + dead, remainder, side, *rest
