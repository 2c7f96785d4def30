"""Equal buffers, counted: first fit packs them without holes, so no address is needed."""

from typing import Any

from sim.policy.counting.capped import Saturating
from sim.policy.counting.tallied import Tallied
from sim.policy.manager import Pool
from sim.policy.spec import Retained
from sim.sequence import Sequence
from workloads.errors import InputError


class Slabs(Tallied):
    """Equal buffers of `slots` tokens; admission takes one, growth takes nothing more.

    First fit packs equal buffers without holes, so counting them is exact.
    """

    def __init__(self, pool: Pool, slots: int, name: str, retained: Retained | None = None) -> None:
        super().__init__(pool)
        retained = retained or Retained()
        self.slots = slots
        units = retained.units(slots)
        self.landmark_bytes = units * retained.landmark_bytes
        self.padding_bytes = (units * retained.page - slots) * pool.token_bytes
        self.buffer_bytes = units * retained.unit_bytes(pool)
        self.total = pool.capacity_bytes // self.buffer_bytes
        if self.total == 0:
            raise InputError(
                f"{name}: one buffer of {slots} tokens takes {self.buffer_bytes} bytes, "
                f"but the KV budget is {pool.capacity_bytes}; expected a smaller --max-model-len"
            )
        self.taken = 0
        self.final = 0  # slots that will have been used when the holders finish

    def longest(self) -> int:
        return self.slots

    def can_admit(self, seq: Sequence) -> bool:
        return self.taken < self.total

    def admit(self, seq: Sequence) -> None:
        self.taken += 1
        self.final += min(seq.final, self.slots)

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        self.taken -= 1
        self.final -= min(seq.final, self.slots)

    def tally(self) -> tuple[int, int, int]:
        """Live tokens, those that there will be, and buffers taken."""
        return self.live_tokens(), self.final, self.taken

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        tokens, final, taken = tally
        pool, token = self.pool, self.pool.token_bytes
        reserved = (final - tokens) * token
        internal = (taken * self.slots - final) * token + taken * self.padding_bytes
        remainder = pool.capacity_bytes - self.total * self.buffer_bytes  # no buffer fits in it
        metadata = tokens * pool.side_bytes + taken * self.landmark_bytes
        free = (self.total - taken) * self.buffer_bytes
        return tokens * pool.payload_bytes, reserved, internal, remainder, metadata, free, 0

    def check_integrity(self) -> None:
        super().check_integrity()
        assert 0 <= self.taken <= self.total
        assert self.live_tokens() <= self.final


class Rings(Saturating, Slabs):
    """Slabs in which attention reads at most so many tokens; if all kept ones fit, any length."""

    def __init__(self, pool: Pool, slots: int, retained: Retained) -> None:
        super().__init__(pool, slots, "preallocation", retained)
        self.saturate(retained)

    def longest(self) -> int:
        return self.pool.max_len if self.evicts and self.slots >= self.cap else self.slots
