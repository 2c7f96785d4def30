"""A contiguous buffer that is copied into a larger one when it is full."""

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from sim.policy.counting.buffers import Buffer, Contiguous
from sim.policy.counting.capped import Saturating
from sim.policy.manager import Manager, Pool
from sim.policy.spec import Placement, Retained
from sim.sequence import Sequence
from workloads.errors import InputError


@dataclass(frozen=True)
class Growing(Placement):
    """A buffer of `start` tokens that doubles when full, or grows by `step` tokens if that is set.

    What `torch.cat` on a cache and growing arrays do. Old and new buffer exist together while one
    is copied into the other: the peak. Every copy reads and writes the whole context so far.
    """

    start: int = 256
    step: int = 0
    allocator: Literal["first_fit", "buddy"] = "first_fit"

    def __post_init__(self) -> None:
        if self.start < 1:
            raise InputError(f"growing: start={self.start}, expected at least 1")
        if self.step < 0:
            raise InputError(f"growing: step={self.step}, expected 0 (doubling) or more")

    def place(self, pool: Pool, retained: Retained) -> Manager:
        slots = pool.max_len if retained.kept is None else min(retained.kept, pool.max_len)
        if retained.read is None:
            return GrowingBuffers(pool, self, slots, retained)
        manager = GrowingRings(pool, self, slots, retained)
        manager.saturate(retained)
        return manager


class GrowingBuffers(Contiguous):
    """Buffers whose sizes are start, then doubled or a step more, up to `cap_slots`.

    A sequence that fills its buffer is copied in the step that writes the next token; the old
    buffer is left when the next step begins, so the step's memory shows both.
    """

    def __init__(self, pool: Pool, policy: Growing, slots: int, retained: Retained) -> None:
        super().__init__(pool, policy.allocator, slots, retained)
        self.start, self.step = policy.start, policy.step
        self.cap_slots = slots
        self.most = self._most()
        if self.most == 0:
            raise InputError(
                f"growing: the first buffer of {self.capacity(1)} tokens doesn't fit into the KV "
                f"budget of {pool.capacity_bytes} bytes; expected a smaller start"
            )
        self.copied_bytes = 0  # read and written again, since the beginning
        self._copy_bytes = 0  # of those in this step
        self._copied: dict[int, Buffer] = {}  # buffers being copied from
        self._sequences: dict[int, Sequence] = {}  # that decode and can grow
        self._full_at: dict[int, int] = {}  # the tick at which a sequence's buffer is full
        self._full: dict[int, set[int]] = {}  # sequences by that tick
        self._ticks: list[int] = []  # a heap of the keys of `_full`

    def _most(self) -> int:
        """Slots of the largest buffer of the series that fits into an empty pool."""
        found, size = 0, self.capacity(1)
        while size <= self.limit and size > found:
            found, size = size, self.capacity(size + 1)
        return found

    def capacity(self, tokens: int) -> int:
        """Slots of the smallest buffer of the series that holds so many tokens."""
        if tokens >= self.cap_slots:
            return self.cap_slots
        if self.step:
            more = max(0, tokens - self.start)
            size = self.start + -(-more // self.step) * self.step
        else:
            size = self.start << (-(-tokens // self.start) - 1).bit_length()
        return min(size, self.cap_slots)

    def longest(self) -> int:
        return self.most

    def can_admit(self, seq: Sequence) -> bool:
        return self.retained.units(self.capacity(seq.target)) <= self.space.largest()

    def admit(self, seq: Sequence) -> None:
        self.place(seq, self.capacity(seq.target))

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        slots = self.buffers[seq.index].slots
        if slots < self.cap_slots:
            self._sequences[seq.index] = seq
            self._expect(seq.index, self.tick + slots - seq.stored)

    def _expect(self, index: int, tick: int) -> None:
        self._full_at[index] = tick
        if tick not in self._full:
            self._full[tick] = set()
            heappush(self._ticks, tick)
        self._full[tick].add(index)

    def _forget(self, index: int) -> None:
        if index in self._full_at:
            self._full[self._full_at.pop(index)].discard(index)

    def _next_full(self) -> int | None:
        while self._ticks and not self._full[self._ticks[0]]:
            del self._full[heappop(self._ticks)]
        return self._ticks[0] if self._ticks else None

    def growable(self, limit: int) -> int:
        tick = self._next_full()
        if tick is None:
            return limit
        if tick > self.tick:
            return min(limit, tick - self.tick)
        return min(limit, int(self._copies_fit()))

    def repeatable(self, limit: int) -> int:
        # A step that copies reads more than it repeats, and so does the one after it less.
        copies = self._copied or self._next_full() == self.tick
        return 0 if copies else super().repeatable(limit)

    def _due(self) -> list[int]:
        """Sequences that must be copied in the next step, in the order in which it is done."""
        return sorted(self._full.get(self.tick, ()))

    def _next_size(self, index: int) -> int:
        return self.capacity(self.buffers[index].slots + 1)

    def _copies_fit(self) -> bool:
        space = self.space.copy()
        for buffer in self._copied.values():
            space.release(buffer.address, buffer.units)
        units = [self.retained.units(self._next_size(index)) for index in self._due()]
        return all(space.allocate(size) is not None for size in units)

    def grow(self, steps: int) -> None:
        for index in list(self._copied):
            self._leave(index)
        if self._next_full() == self.tick:
            for index in self._due():
                self._copy(index)
        super().grow(steps)

    def _copy(self, index: int) -> None:
        seq, size = self._sequences[index], self._next_size(index)
        old = self.take_back(index)
        self._copied[index] = old
        self.copying += old.units
        self.place(seq, size)
        moved = self._moved_bytes(old)
        self._copy_bytes += moved
        self.copied_bytes += moved
        self._forget(index)
        if size < self.cap_slots:
            self._expect(index, self.tick + size - old.slots)
        else:
            del self._sequences[index]

    def _moved_bytes(self, buffer: Buffer) -> int:
        """Of a copy: the buffer's tokens and their landmarks, read and written."""
        landmarks = buffer.units * self.retained.landmark_bytes
        return 2 * (buffer.slots * self.pool.token_bytes + landmarks)

    def _leave(self, index: int) -> None:
        buffer = self._copied.pop(index)
        self.copying -= buffer.units
        self._copy_bytes -= self._moved_bytes(buffer)
        self.give_back(buffer)

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        self._forget(seq.index)
        self._sequences.pop(seq.index, None)
        if seq.index in self._copied:  # its step is over, or will be without it
            self._leave(seq.index)

    def reads(self) -> tuple[int, int]:
        return self.with_copies(*super().reads())

    def with_copies(self, first: int, growth: int) -> tuple[int, int]:
        """What attention reads, and this step's copies."""
        return first + self._copy_bytes, growth

    def copied_spans(self) -> list[tuple[int, int]]:
        return [(b.address, self.space.taken(b.units)) for b in self._copied.values()]


class GrowingRings(Saturating, GrowingBuffers):
    """Buffers that grow up to a ring's size."""

    def longest(self) -> int:
        return self.pool.max_len if self.evicts and self.most == self.cap_slots else self.most

    def reads(self) -> tuple[int, int]:
        return self.with_copies(*super().reads())  # `Saturating`'s, which hide the buffers' own
