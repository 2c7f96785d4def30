"""Contiguous buffers of different sizes: what one reserves, and the holes they leave.

The Orca variants of Kwon et al. (SOSP'23, section 6.1): Yu et al., Orca, OSDI'22, kept KV in one
buffer a request; the paper's authors gave it a buddy allocator and three ways to know the output.
"""

from dataclasses import dataclass
from typing import Literal

from sim.policy.base import Manager, Memory, Policy, Pool
from sim.policy.buddy import Buddy, order_of
from sim.sequence import Sequence
from workloads.errors import InputError

Reserve = Literal["max", "pow2", "oracle"]


@dataclass(frozen=True)
class Contiguous(Policy):
    """One buffer a request, reserved whole at admission, from a buddy allocator.

    `reserve` is what the buffer has room for: `max`, the engine's longest context; `pow2`, the
    prompt and its output rounded up to a power of two (at most twice it); `oracle`, exactly what
    will be written, as if the output's length were known.
    """

    reserve: Reserve = "max"

    def manager(self, pool: Pool) -> "Buffers":
        return Buffers(pool, self.reserve)


class Buffers(Manager):
    """Buffers in an arena of token slots. A sequence's `held` is its buffer's address.

    Free slots count as external while they lie in holes too small for the request refused last
    (or for any request at all), and so does what the allocator rounds a buffer up by.
    """

    def __init__(self, pool: Pool, reserve: Reserve) -> None:
        super().__init__(pool)
        self.reserve = reserve
        self.arena = Buddy(pool.capacity_bytes // pool.token_bytes)
        self.least = pool.max_len if reserve == "max" else 1  # slots of the smallest buffer
        if self.arena.largest() < self.least:
            raise InputError(
                f"contiguous: a buffer of {self.least} tokens takes "
                f"{self.least * pool.token_bytes} bytes, but the KV budget of "
                f"{pool.capacity_bytes} has no such hole; expected a smaller --max-model-len"
            )
        self.asked = 0  # slots that holders asked for
        self.final = 0  # slots that will have been used when they finish
        self._refused = self.least  # slots of the request that didn't fit last

    def longest(self) -> int:
        return min(self.pool.max_len, self.arena.largest())

    def buffer(self, seq: Sequence) -> int:
        """Slots that the request's buffer must have."""
        if self.reserve == "max":
            return self.pool.max_len
        if self.reserve == "oracle":
            return seq.final
        # Rounding must not turn a request away that fits.
        return max(seq.final, min(seq.prompt + (1 << order_of(seq.output)), self.longest()))

    def can_admit(self, seq: Sequence) -> bool:
        fits = self.arena.fits(self.buffer(seq))
        if not fits:
            self._refused = self.buffer(seq)  # seen by `memory` alone
        return fits

    def admit(self, seq: Sequence) -> None:
        size = self.buffer(seq)
        seq.held = self.arena.take(size)
        self.asked += size
        self.final += seq.final
        self._refused = self.least

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        self.arena.give(seq.held)
        self.asked -= self.buffer(seq)
        self.final -= seq.final
        seq.held = 0

    def memory(self) -> Memory:
        token = self.pool.token_bytes
        live = self.context + self.prefilled
        free = self.arena.usable(self._refused)
        return Memory(
            live=live * token,
            reserved=(self.final - live) * token,
            internal=(self.asked - self.final) * token,
            external=self.pool.capacity_bytes - (self.asked + free) * token,
            metadata=0,
            free=free * token,
        )

    def check_integrity(self) -> None:
        super().check_integrity()
        self.arena.check_integrity()
        assert self.context + self.prefilled <= self.final <= self.asked
        assert self.asked <= self.arena.slots - self.arena.free
