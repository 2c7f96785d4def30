"""Contiguous buffers of unequal size, reserved whole at admission, in a real address space."""

from typing import Any, NamedTuple

from sim.policy.counting.address import address_space
from sim.policy.counting.capped import Saturating
from sim.policy.counting.tallied import Tallied
from sim.policy.manager import Pool
from sim.policy.spec import Retained
from sim.sequence import Sequence
from workloads.errors import InputError


class Buffer(NamedTuple):
    """What one sequence holds, in units and in token slots."""

    address: int
    units: int
    slots: int
    final: int  # slots that will have been used when it finishes


def buffers(pool: Pool, reserve: str, allocator: str, slots: int, retained: Retained) -> "Buffers":
    """The manager for that reservation of at most `slots` tokens."""
    if retained.read is None:
        return Buffers(pool, reserve, allocator, slots, retained)
    manager = RingBuffers(pool, reserve, allocator, slots, retained)
    manager.saturate(retained)
    return manager


class Contiguous(Tallied):
    """Sequences that hold one contiguous buffer each. A unit is a token, or a page with landmark.

    `external` are the holes too small for the buffer that was admitted last (in an empty pool:
    for one unit), what the allocator's rounding takes (the buddy allocator's, which the
    PagedAttention paper counts so, too) and the pool's odd end.
    """

    def __init__(self, pool: Pool, allocator: str, slots: int, retained: Retained) -> None:
        super().__init__(pool)
        self.retained = retained
        self.unit_bytes = retained.unit_bytes(pool)
        self.space = address_space(allocator, pool.capacity_bytes // self.unit_bytes)
        self.limit = min(slots, self.space.largest() * retained.page)  # no buffer is larger
        if self.limit == 0:
            raise InputError(
                f"one slot of {retained.page} tokens takes {self.unit_bytes} bytes, but the KV "
                f"budget is {pool.capacity_bytes}; expected a larger one"
            )
        self.buffers: dict[int, Buffer] = {}
        self.taken = 0  # units asked for
        self.slots = 0
        self.final = 0
        self.copying = 0  # units of buffers that are being copied from, left after this step
        self._need = 1  # units of the buffer placed last

    def place(self, seq: Sequence, slots: int) -> None:
        """Take a buffer for the sequence. It must fit."""
        units = self.retained.units(slots)
        address = self.space.allocate(units)
        assert address is not None, "a buffer was promised that doesn't fit"
        final = min(seq.final, slots)
        self.buffers[seq.index] = Buffer(address, units, slots, final)
        self.taken += units
        self.slots += slots
        self.final += final
        self._need = units

    def take_back(self, seq: Sequence) -> Buffer:
        """Forget a sequence's buffer. The caller gives its addresses back."""
        old = self.buffers.pop(seq.index)
        self.taken -= old.units
        self.slots -= old.slots
        self.final -= old.final
        return old

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        old = self.take_back(seq)
        self.space.release(old.address, old.units)
        if not self.taken:
            self._need = 1  # an empty pool is like a new one

    def tally(self) -> tuple[int, ...]:
        """Live tokens, those that there will be, and units: taken, copied from, free and usable."""
        served = self.space.served(self._need)
        return self.live_tokens(), self.final, self.taken, self.copying, served

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        tokens, final, taken, copying, served = tally
        pool, unit = self.pool, self.unit_bytes
        reserved = (final - tokens) * pool.token_bytes
        internal = (taken * self.retained.page - final) * pool.token_bytes + copying * unit
        external = pool.capacity_bytes - (taken + copying + served) * unit
        metadata = tokens * pool.side_bytes + taken * self.retained.landmark_bytes
        return tokens * pool.payload_bytes, reserved, internal, external, metadata, served * unit, 0

    @property
    def addresses(self) -> int:
        return self.space.size

    def holes(self) -> list[tuple[int, int]]:
        return self.space.holes()

    def check_integrity(self) -> None:
        super().check_integrity()
        spans = sorted(
            [(b.address, self.space.taken(b.units)) for b in self.buffers.values()]
            + self.space.holes()
            + self.copied_spans()
        )
        end = 0
        for address, units in spans:
            assert address == end, "buffers and holes overlap or leave a gap"
            end += units
        assert end == self.space.size
        assert self.live_tokens() <= self.final <= self.slots

    def copied_spans(self) -> list[tuple[int, int]]:
        """Addresses of buffers that are being copied from."""
        return []


class Buffers(Contiguous):
    """The whole of what a sequence may need is reserved at admission.

    "oracle" reserves what it will need, "pow2" its output rounded up to a power of two: at most
    twice the output, as in Kwon et al., SOSP'23, section 6.1.
    """

    def __init__(
        self, pool: Pool, reserve: str, allocator: str, slots: int, retained: Retained
    ) -> None:
        super().__init__(pool, allocator, slots, retained)
        self.reserve = reserve
        if reserve == "max" and self.limit < slots:
            raise InputError(
                f"preallocation: one buffer of {slots} tokens doesn't fit into the KV budget of "
                f"{pool.capacity_bytes} bytes; expected a smaller --max-model-len"
            )

    def longest(self) -> int:
        return self.limit

    def reservation(self, seq: Sequence) -> int:
        """Slots that the sequence gets; never more than can be had in an empty pool."""
        if self.reserve == "max":
            return self.limit
        if self.reserve == "oracle":
            return min(seq.final, self.limit)
        return min(seq.prompt + (1 << (seq.output - 1).bit_length()), self.limit)

    def can_admit(self, seq: Sequence) -> bool:
        return self.retained.units(self.reservation(seq)) <= self.space.largest()

    def admit(self, seq: Sequence) -> None:
        self.place(seq, self.reservation(seq))


class RingBuffers(Saturating, Buffers):
    """Buffers in which attention reads at most so many tokens; with `kept`, any length may fit."""

    def longest(self) -> int:
        return self.pool.max_len if self.evicts and self.limit >= self.cap else self.limit
