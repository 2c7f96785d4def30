"""Managers whose attention reads at most so many tokens of a sequence."""

from sim.policy.axes import Retained
from sim.policy.base import Manager
from sim.policy.saturating import SaturatingSum
from sim.sequence import Sequence


class Saturating(Manager):
    """Mixed into a placement's manager: counts min(length, cap) of the whole batch in bulk.

    With `retained.kept` the other tokens are gone, and what is counted is also what is live.
    """

    def saturate(self, retained: Retained) -> None:
        """Called once, by the constructor of the class that mixes this in."""
        cap = retained.read if retained.kept is None else retained.kept
        assert cap is not None
        self.cap = cap
        self.evicts = retained.kept is not None
        self.landmark_read_bytes = retained.landmark_read_bytes
        self.seen = SaturatingSum(cap)  # of decoding sequences
        self.prefill_seen = 0  # of the others

    def extend(self, seq: Sequence, tokens: int) -> None:
        before = min(seq.stored, self.cap)
        super().extend(seq, tokens)
        self.prefill_seen += min(seq.stored, self.cap) - before

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        self.prefill_seen -= min(seq.stored, self.cap)
        self.seen.add(seq.stored, self.tick)

    def growable(self, limit: int) -> int:
        linear = self.seen.linear_for(self.tick)
        return super().growable(limit if linear is None else min(limit, linear))

    def grow(self, steps: int) -> None:
        super().grow(steps)
        self.seen.advance(steps, self.tick)

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        self.seen.remove(seq.stored, self.tick)
        self.prefill_seen += min(seq.stored, self.cap)

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        self.prefill_seen -= min(seq.stored, self.cap)

    def live_tokens(self) -> int:
        return self.seen.total + self.prefill_seen if self.evicts else super().live_tokens()

    def reads(self) -> tuple[int, int]:
        token, landmark = self.pool.token_bytes, self.landmark_read_bytes
        return (
            self.seen.total * token + self.context * landmark,
            self.seen.growing * token + self.decoding * landmark,
        )

    def check_integrity(self) -> None:
        super().check_integrity()
        assert 0 <= self.seen.growing <= self.decoding
        assert 0 <= self.seen.total <= min(self.context, self.decoding * self.cap)
        assert 0 <= self.prefill_seen <= self.prefilled
