"""Paging for models whose layers keep different tokens, with one page for all of them."""

from typing import Any

from sim.policy.counting.capped import SaturatingSum
from sim.policy.counting.pages import Pages
from sim.policy.counting.tallied import Tallied
from sim.policy.manager import Pool, group_bytes
from sim.sequence import Sequence
from workloads.errors import InputError


class Windowed(Tallied):
    """Mixed into a paged manager: live tokens and reads of each group of layers, in bulk.

    Chunked-local layers are taken for windows of a chunk's length, which they reach at its end.
    """

    def count_groups(self, pool: Pool) -> None:
        """Called once, by the constructor of the class that mixes this in."""
        self.grouped = [
            (group.layers * (stored.key + stored.value), group.window)
            for group, stored in zip(pool.groups, pool.stored, strict=True)
        ]
        windows = {window for _, window in self.grouped if window is not None}
        self.windows = {window: SaturatingSum(window) for window in sorted(windows)}
        self.prefill_kept = dict.fromkeys(self.windows, 0)

    def kept(self, window: int | None) -> int:
        """Tokens in the windows of all sequences; None: in full layers."""
        if window is None:
            return self.context + self.prefilled
        return self.windows[window].total + self.prefill_kept[window]

    def live_by_group(self) -> tuple[tuple[int, int], ...]:
        groups = zip(self.pool.groups, self.pool.stored, strict=True)
        return tuple(
            group_bytes(self.kept(group.window), group, stored) for group, stored in groups
        )

    def live_bytes(self) -> tuple[int, int]:
        """Of payload and of side data."""
        payload, side = zip(*self.live_by_group(), strict=True)
        return sum(payload), sum(side)

    def _keep(self, length: int, sign: int) -> None:
        for window in self.prefill_kept:
            self.prefill_kept[window] += sign * min(length, window)

    def extend(self, seq: Sequence, tokens: int) -> None:
        self._keep(seq.stored, -1)
        super().extend(seq, tokens)
        self._keep(seq.stored, 1)

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        self._keep(seq.stored, -1)
        for window in self.windows.values():
            window.add(seq.stored, self.tick)

    def growable(self, limit: int) -> int:
        for window in self.windows.values():
            limit = min(limit, window.linear_for(self.tick))
        return super().growable(limit)

    def grow(self, steps: int) -> None:
        super().grow(steps)
        for window in self.windows.values():
            window.advance(steps, self.tick)

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        for window in self.windows.values():
            window.remove(seq.stored, self.tick)
        self._keep(seq.stored, 1)

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        self._keep(seq.stored, -1)

    def reads(self) -> tuple[int, int]:
        first = growth = 0
        for token, window in self.grouped:
            if window is None:
                first += token * self.context
                growth += token * self.decoding
            else:
                first += token * self.windows[window].total
                growth += token * self.windows[window].growing
        return first, growth


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
        return (*self.live_bytes(), *super().tally())

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        live, side, *counts = tally
        whole, _, internal, remainder, metadata, *rest = super().uses(tuple(counts))
        dead = whole + metadata - live - side
        return live, 0, internal + dead, remainder, side, *rest
