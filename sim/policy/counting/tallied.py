"""Managers whose memory follows from a few integers, so that events need to keep no more."""

from abc import abstractmethod
from typing import Any

from sim.plan import from_fields
from sim.policy.manager import Manager, Memory

make_memory = from_fields(Memory)


class Tallied(Manager):
    """`tally` counts and `uses` turns counts into bytes, a single one or whole columns of them."""

    @abstractmethod
    def tally(self) -> tuple[int, ...]:
        """What there is now, as few integers as say it."""

    @abstractmethod
    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        """Bytes in the order of `Memory`, then cached ones, by integer arithmetic alone."""

    def memory(self) -> Memory:
        return make_memory(self.uses(self.tally())[:-1])

    def cached_bytes(self) -> int:
        cached: int = self.uses(self.tally())[-1]
        return cached
