"""The axes that compose: where KV lies, what is kept and read, how it is stored, who shares it."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from sim.policy.base import Manager, Policy, Pool, spec_name
from workloads.errors import InputError


class Retained(NamedTuple):
    """What a retention leaves of a sequence: numbers that any placement can work with.

    `kept` never exceeds what is read: a token that is kept and not read is there to be chosen.
    """

    kept: int | None = None  # most tokens a sequence keeps; None: all
    read: int | None = None  # most tokens its attention reads in a step; None: all
    page: int = 1  # tokens that one landmark stands for
    landmark_bytes: int = 0  # of one page over all layers; 0: there are none

    @property
    def landmark_read_bytes(self) -> int:
        """Landmark bytes read in a step for each token of context, rounded up.

        All of a sequence's landmarks are read in each step. Spread over their pages' tokens, so
        that reads are linear in the context, they are right to within one landmark a sequence.
        """
        return -(-self.landmark_bytes // self.page)

    def unit_bytes(self, pool: Pool) -> int:
        """Bytes of `page` tokens and their landmark."""
        return self.page * pool.token_bytes + self.landmark_bytes

    def units(self, slots: int) -> int:
        """Units that hold so many tokens."""
        return -(-slots // self.page)


KEEP_ALL = Retained()


@dataclass(frozen=True)
class Placement(Policy):
    """Where KV lies in memory, and when room is taken for it."""

    @abstractmethod
    def place(self, pool: Pool, retained: Retained) -> Manager:
        """A fresh manager. Raises InputError in one line for a retention it can't serve."""

    def manager(self, pool: Pool) -> Manager:
        return self.place(pool, KEEP_ALL)


@dataclass(frozen=True)
class Modifier(Policy):
    """A policy that stands behind a placement."""

    def manager(self, pool: Pool) -> Manager:
        name = spec_name(type(self))
        raise InputError(f"{name}: changes a placement, expected one before it: paging+{name}")


@dataclass(frozen=True)
class Retention(Modifier):
    """Which tokens are kept, and which of them attention reads."""

    @abstractmethod
    def apply(self, pool: Pool) -> tuple[Pool, Retained]:
        """What is left of a sequence, and the pool with side data counted into its tokens."""


@dataclass(frozen=True)
class Storage(Modifier):
    """How an element of K and V is stored."""

    @abstractmethod
    def apply(self, pool: Pool) -> Pool:
        """The same memory with another size of token."""


@dataclass(frozen=True)
class Sharing(Modifier):
    """Which sequences share what they hold."""

    @abstractmethod
    def share(self, placement: Placement, pool: Pool, retained: Retained) -> Manager:
        """A manager instead of the placement's own. Raises InputError where they don't fit."""
