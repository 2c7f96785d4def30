"""Managers whose attention reads at most so many tokens of a sequence, and their sums."""

from heapq import heappop, heappush
from sys import maxsize

from sim.policy.manager import Manager
from sim.policy.spec import Retained
from sim.sequence import Sequence


class SaturatingSum:
    """Lengths that all grow by one a tick and stop counting at `cap`.

    `total` is the sum of min(length, cap), `growing` how many are still below the cap.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.total = 0
        self.growing = 0
        # Whoever still counts reaches the cap within `cap` ticks, so ticks modulo that stay apart.
        self._span = cap + 1
        self._ends = [0] * self._span  # by tick: so many sequences reach the cap
        self._order: list[int] = []  # those ticks, a heap
        self._queued = [0] * self._span  # by tick: whether it is in there

    def add(self, length: int, tick: int) -> None:
        """A sequence of that length joins at that tick."""
        if length >= self.cap:
            self.total += self.cap
            return
        self.total += length
        self.growing += 1
        end = tick + self.cap - length
        self._ends[end % self._span] += 1
        if not self._queued[end % self._span]:
            self._queued[end % self._span] = 1
            heappush(self._order, end)

    def remove(self, length: int, tick: int) -> None:
        """A sequence that now has that length leaves."""
        if length >= self.cap:
            self.total -= self.cap
            return
        self.total -= length
        self.growing -= 1
        self._ends[(tick + self.cap - length) % self._span] -= 1

    def linear_for(self, tick: int) -> int:
        """Ticks for which `growing` stays what it is."""
        while self._order and not self._ends[self._order[0] % self._span]:
            self._queued[self._order[0] % self._span] = 0
            heappop(self._order)
        return self._order[0] - tick if self._order else maxsize

    def advance(self, steps: int, tick: int) -> None:
        """`steps` ticks pass, and it is `tick` now."""
        self.total += steps * self.growing
        while self._order and self._order[0] <= tick:
            end = heappop(self._order)
            count = self._ends[end % self._span]
            self._ends[end % self._span] = 0
            self._queued[end % self._span] = 0
            self.total -= count * (tick - end)
            self.growing -= count


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
        return super().growable(min(limit, self.seen.linear_for(self.tick)))

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

    def transfer_bytes(self, tokens: int) -> int:
        return super().transfer_bytes(min(tokens, self.cap) if self.evicts else tokens)

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
