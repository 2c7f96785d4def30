"""Contiguous preallocation: every request gets a buffer for the longest context there may be."""

from dataclasses import dataclass

from sim.policy.base import Manager, Memory, Policy, Pool
from sim.sequence import Sequence
from workloads.errors import InputError


@dataclass(frozen=True)
class Preallocation(Policy):
    """Reserve `max_len` slots per request at admission (0: the engine's own longest context).

    What serving systems did before paging, and "Orca (Max)" in Kwon et al., SOSP'23.
    """

    max_len: int = 0

    def __post_init__(self) -> None:
        if self.max_len < 0:
            raise InputError(f"preallocation: max_len={self.max_len}, expected 0 or more")

    def manager(self, pool: Pool) -> "Slabs":
        return Slabs(pool, min(self.max_len or pool.max_len, pool.max_len), "preallocation")


class Slabs(Manager):
    """Equal buffers of `slots` tokens; admission takes one, growth takes nothing more."""

    def __init__(self, pool: Pool, slots: int, name: str) -> None:
        super().__init__(pool)
        self.slots = slots
        self.total = pool.capacity_bytes // (slots * pool.token_bytes)
        if self.total == 0:
            raise InputError(
                f"{name}: one buffer of {slots} tokens takes {slots * pool.token_bytes} bytes, "
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

    def live_tokens(self) -> int:
        """Slots that hold KV now."""
        return self.context + self.prefilled

    def memory(self) -> Memory:
        token = self.pool.token_bytes
        live = self.live_tokens()
        buffers = self.total * self.slots * token
        return Memory(
            live=live * token,
            reserved=(self.final - live) * token,
            internal=(self.taken * self.slots - self.final) * token,
            external=self.pool.capacity_bytes - buffers,  # the hole no buffer fits in
            metadata=0,
            free=(self.total - self.taken) * self.slots * token,
        )

    def check_integrity(self) -> None:
        super().check_integrity()
        assert 0 <= self.taken <= self.total
        assert self.live_tokens() <= self.final
