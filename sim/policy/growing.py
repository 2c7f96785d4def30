"""A contiguous buffer that is copied into a larger one when it is full."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from sim.policy.counting.buffers import Contiguous
from sim.policy.counting.calendar import Calendar
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
        super().__post_init__()
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


class Copied(NamedTuple):
    """A buffer that is being copied from."""

    request: int
    address: int
    units: int
    slots: int


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
        self._copied: list[Copied] = []
        # Those that decode and can grow, by the tick at which they are full.
        self.calendar = Calendar()

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
            self.calendar.expect(seq, self.tick + slots - seq.stored)

    def growable(self, limit: int) -> int:
        tick = self.calendar.next()
        if tick > self.tick:
            return min(limit, tick - self.tick)
        return min(limit, int(self._copies_fit()))

    def repeatable(self, limit: int) -> int:
        # A step that copies reads more than it repeats, and so does the one after it less.
        copies = self._copied or self.calendar.next() == self.tick
        return 0 if copies else super().repeatable(limit)

    def _next_size(self, seq: Sequence) -> int:
        return self.capacity(self.buffers[seq.index].slots + 1)

    def _copies_fit(self) -> bool:
        trial = self.space.copy()
        for copied in self._copied:
            trial.release(copied.address, copied.units)
        for seq in self.calendar.at(self.tick):
            if trial.allocate(self.retained.units(self._next_size(seq))) is None:
                return False
        return True

    def grow(self, steps: int) -> None:
        for copied in self._copied:
            self._leave(copied)
        self._copied.clear()
        if self.calendar.next() == self.tick:
            for seq in self.calendar.at(self.tick):
                self._copy(seq)
        super().grow(steps)

    def _copy(self, seq: Sequence) -> None:
        size = self._next_size(seq)
        old = self.take_back(seq)
        slots = old.slots
        self._copied.append(Copied(seq.index, old.address, old.units, slots))
        self.copying += old.units
        moved = self._moved_bytes(old.units, slots)
        self.place(seq, size)
        self._copy_bytes += moved
        self.copied_bytes += moved
        self.calendar.forget(seq)
        if size < self.cap_slots:
            self.calendar.expect(seq, self.tick + size - slots)

    def _moved_bytes(self, units: int, slots: int) -> int:
        """Of a copy: the buffer's tokens and their landmarks, read and written."""
        return 2 * (slots * self.pool.token_bytes + units * self.retained.landmark_bytes)

    def _leave(self, copied: Copied) -> None:
        self.copying -= copied.units
        self._copy_bytes -= self._moved_bytes(copied.units, copied.slots)
        self.space.release(copied.address, copied.units)

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        self.calendar.forget(seq)
        for copied in self._copied:
            if copied.request == seq.index:  # its step is over, or will be without it
                self._leave(copied)
                self._copied.remove(copied)
                break

    def reads(self) -> tuple[int, int]:
        """What attention reads, and this step's copies."""
        first, growth = super().reads()
        return first + self._copy_bytes, growth

    def copied_spans(self) -> list[tuple[int, int]]:
        return [(one.address, self.space.taken(one.units)) for one in self._copied]


class GrowingRings(Saturating, GrowingBuffers):
    """Buffers that grow up to a ring's size."""

    def longest(self) -> int:
        return self.pool.max_len if self.evicts and self.most == self.cap_slots else self.most

    def reads(self) -> tuple[int, int]:
        first, growth = super().reads()  # `Saturating`'s, which hide the buffers' own
        return first + self._copy_bytes, growth
