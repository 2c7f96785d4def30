"""Sliding window with attention sinks: a ring buffer of bounded size per request."""

from dataclasses import dataclass
from typing import ClassVar

from sim.policy.base import Policy, Pool
from sim.policy.preallocation import Slabs
from sim.policy.saturating import SaturatingSum
from sim.sequence import Sequence
from workloads.errors import InputError


@dataclass(frozen=True)
class SlidingWindow(Policy):
    """Keep the first `sinks` tokens and the last `window`, the query's own included.

    Older tokens are overwritten, so attention to them is lost (Xiao et al., StreamingLLM,
    ICLR'24: without sinks quality collapses). The ring is min(window + sinks, longest context).
    """

    limitation: ClassVar[str | None] = "forgets tokens between the sinks and the window"

    window: int = 4096
    sinks: int = 4

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InputError(f"sliding_window: window={self.window}, expected at least 1")
        if self.sinks < 0:
            raise InputError(f"sliding_window: sinks={self.sinks}, expected 0 or more")

    def manager(self, pool: Pool) -> "Rings":
        return Rings(pool, min(self.window + self.sinks, pool.max_len))


class Rings(Slabs):
    """Slabs of a ring's size in which a sequence of any length lives."""

    def __init__(self, pool: Pool, slots: int) -> None:
        super().__init__(pool, slots, "sliding_window")
        self.kept = SaturatingSum(slots)  # of decoding sequences
        self.prefill_kept = 0  # of the others

    def longest(self) -> int:
        return self.pool.max_len

    def extend(self, seq: Sequence, tokens: int) -> None:
        before = min(seq.stored, self.slots)
        super().extend(seq, tokens)
        self.prefill_kept += min(seq.stored, self.slots) - before

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        self.prefill_kept -= min(seq.stored, self.slots)
        self.kept.add(seq.stored, self.tick)

    def growable(self, limit: int) -> int:
        linear = self.kept.linear_for(self.tick)
        return limit if linear is None else min(limit, linear)

    def grow(self, steps: int) -> None:
        super().grow(steps)
        self.kept.advance(steps, self.tick)

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        self.kept.remove(seq.stored, self.tick)
        self.prefill_kept += min(seq.stored, self.slots)

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        self.prefill_kept -= min(seq.stored, self.slots)

    def live_tokens(self) -> int:
        return self.kept.total + self.prefill_kept

    def reads(self) -> tuple[int, int]:
        token = self.pool.token_bytes
        return self.kept.total * token, self.kept.growing * token
