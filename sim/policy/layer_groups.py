"""Paging for models whose layers keep different tokens: per-group blocks, or one page for all."""

from dataclasses import dataclass
from typing import Any

from sim.model.layers import LayerGroup
from sim.policy.counting.capped import SaturatingSum
from sim.policy.counting.pages import Pages
from sim.policy.counting.tallied import Tallied
from sim.policy.manager import Manager, Pool, Stored, group_bytes
from sim.sequence import Sequence
from workloads.errors import InputError


def grouped_pages(pool: Pool, layers: str, block_size: int, watermark: float) -> Manager:
    """The manager for `layers` "unified" or "capped"."""
    if not pool.groups:
        raise InputError(f"paging:layers={layers}: expected a pool that knows the model's layers")
    if layers == "unified":
        return UnifiedPages(pool, block_size, watermark)
    return GroupedPages(pool, block_size, watermark)


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
            linear = window.linear_for(self.tick)
            limit = limit if linear is None else min(limit, linear)
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
        self.count_groups(pool)

    def tally(self) -> tuple[int, ...]:
        return (*self.live_bytes(), *super().tally())

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        live, side, *counts = tally
        whole, _, internal, remainder, metadata, *rest = super().uses(tuple(counts))
        dead = whole + metadata - live - side
        return live, 0, internal + dead, remainder, side, *rest


@dataclass(slots=True)
class Table:
    """Layers of one kind: how many block tables they take and what those hold."""

    tables: int
    block_size: int
    window: int | None
    gains: list[int]  # decoding sequences by residue of their length
    losses: list[int]  # those past the window, by residue of what has left it

    def blocks_for(self, tokens: int) -> int:
        """Blocks of one sequence, those that have left the window given back."""
        left = 0 if self.window is None else max(0, tokens - self.window)
        return self.tables * (-(-tokens // self.block_size) - left // self.block_size)

    def most(self, tokens: int) -> int:
        """The most blocks that it holds at any length up to that."""
        blocks = -(-tokens // self.block_size)
        if self.window is not None:  # a window that isn't aligned touches one block more
            blocks = min(blocks, -(-(self.window - 1) // self.block_size) + 1)
        return self.tables * blocks

    def step(self, tick: int) -> int:
        """Blocks that the batch's next step takes, less those it gives back."""
        size = self.block_size
        return self.tables * (self.gains[-tick % size] - self.losses[(-1 - tick) % size])


class GroupedPages(Windowed):
    """Block tables per group of equally many layers over one pool of equal pages.

    vLLM's hybrid KV cache manager (v1/core/kv_cache_utils.py): layers of each kind are cut into
    groups as large as the smallest kind (or the largest, if that is less than 1.25 times as
    large); the last group of a kind is padded. Layers of fewer bytes a token get longer blocks.
    Here a window's old blocks are free as soon as its tokens are written, in prefill, too.
    """

    reserves = False

    def __init__(self, pool: Pool, block_size: int, watermark: float) -> None:
        super().__init__(pool)
        self.count_groups(pool)
        kinds = [
            (group, stored)
            for group, stored in zip(pool.groups, pool.stored, strict=True)
            if stored.key + stored.value
        ]
        self.layers_a_page = layers_a_page([group.layers for group, _ in kinds])
        widest = max(stored.key + stored.value for _, stored in kinds)
        self.page_bytes = block_size * self.layers_a_page * widest
        self.tables = [self._table(group, stored, block_size, widest) for group, stored in kinds]
        self.blocks = pool.capacity_bytes // self.page_bytes
        if self.most(1) > self.blocks:
            raise InputError(
                f"paging: the first token takes {self.most(1)} blocks of {self.page_bytes} bytes, "
                f"but the KV budget is {pool.capacity_bytes}; expected a smaller block_size"
            )
        self.free = self.blocks
        self.kept_back = int(self.blocks * watermark)

    def _table(self, group: LayerGroup, stored: Stored, block_size: int, widest: int) -> Table:
        ratio, rest = divmod(widest, stored.key + stored.value)
        if rest:
            raise InputError(
                f"paging:layers=capped: {group.kind} layers of {stored.key + stored.value} B a "
                f"token can't share pages with layers of {widest}; expected layers=unified"
            )
        size = block_size * ratio
        tables = -(-group.layers // self.layers_a_page)
        return Table(tables, size, group.window, [0] * size, [0] * size)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that a sequence of that length holds."""
        return sum(table.blocks_for(tokens) for table in self.tables)

    def most(self, tokens: int) -> int:
        """The most blocks that it holds at any length up to that."""
        return sum(table.most(tokens) for table in self.tables)

    def longest(self) -> int:
        low, high = 1, max(self.pool.max_len, 1)
        while low < high:
            middle = (low + high + 1) // 2
            if self.most(middle) <= self.blocks:
                low = middle
            else:
                high = middle - 1
        return low

    def can_admit(self, seq: Sequence) -> bool:
        keep = self.kept_back if self.free < self.blocks else 0
        return self.most(seq.target) <= self.free - keep

    def can_extend(self, seq: Sequence, tokens: int) -> bool:
        return self.blocks_for(seq.stored + tokens) - seq.held <= self.free

    def extend(self, seq: Sequence, tokens: int) -> None:
        super().extend(seq, tokens)
        need = self.blocks_for(seq.stored)
        self.free -= need - seq.held
        seq.held = need

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        self._count(seq.stored, 1)

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        self._count(seq.stored, -1)
        seq.held = self.blocks_for(seq.stored)

    def _count(self, length: int, sign: int) -> None:
        for table in self.tables:
            size, window = table.block_size, table.window
            table.gains[(length - self.tick) % size] += sign
            if window is not None and length >= window:
                table.losses[(length - window - self.tick) % size] += sign

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        self.free += seq.held
        seq.held = 0

    def growable(self, limit: int) -> int:
        for window in self.windows.values():  # no sequence fills its window before the last step
            linear = window.linear_for(self.tick)
            limit = limit if linear is None else min(limit, linear)
        free, tick = self.free, self.tick
        for step in range(limit):
            need = sum([table.step(tick + step) for table in self.tables])
            if need > free or (need < 0 and step):  # blocks that get free may admit a request
                return step
            if need < 0:
                return 1
            free -= need
        return limit

    def repeatable(self, limit: int) -> int:
        # A step that frees blocks stands alone: use peaks before it, and admission looks after it.
        if sum([table.step(self.tick) for table in self.tables]) < 0:
            return 0
        return super().repeatable(limit)

    def grow(self, steps: int) -> None:
        for step in range(self.tick, self.tick + steps):
            self.free -= sum([table.step(step) for table in self.tables])
        before = {window: kept.growing for window, kept in self.windows.items()}
        super().grow(steps)
        for table in self.tables:
            if table.window is not None:
                full = before[table.window] - self.windows[table.window].growing
                table.losses[-self.tick % table.block_size] += full

    def pieces(self) -> tuple[int, int]:
        return self.blocks, self.page_bytes

    def tally(self) -> tuple[int, ...]:
        """Live bytes, of payload and of side data, and free blocks."""
        return *self.live_bytes(), self.free

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        live, side, free = tally
        page = self.page_bytes
        internal = (self.blocks - free) * page - live - side
        remainder = self.pool.capacity_bytes - self.blocks * page
        return live, 0, internal, remainder, side, free * page, 0

    def check_integrity(self) -> None:
        super().check_integrity()
        assert 0 <= self.free <= self.blocks
        assert all(sum(table.gains) == self.decoding for table in self.tables)


def layers_a_page(layers: list[int]) -> int:
    """Layers that share a page: vLLM's rule, by the number of layers of each kind."""
    return max(layers) if max(layers) < 1.25 * min(layers) else min(layers)
