"""Rings: what paged placements hold of a sequence where only its latest tokens are kept."""

from sim.policy.counting.capped import Saturating
from sim.policy.counting.periodic import Periodic
from sim.policy.spec import Retained


class Ring(Saturating, Periodic):
    """Mixed into a paged manager: past the cap tokens overwrite the oldest, and take no units."""

    def longest(self) -> int:
        held = super().longest()
        return self.pool.max_len if held >= self.cap else held

    def units_for(self, tokens: int) -> int:
        # of the class this is mixed into
        return super().units_for(min(tokens, self.cap))  # type: ignore[safe-super]

    def saturate(self, retained: Retained) -> None:
        super().saturate(retained)
        self.fills_below = self.cap

    def grow(self, steps: int) -> None:
        before = self.seen.growing
        super().grow(steps)
        if full := before - self.seen.growing:  # `growable` stops where one gets full
            self._residues[(self.cap - self.tick) % self.period] -= full
            self.filling -= full
