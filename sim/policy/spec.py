"""What a policy is called and made of: a spec, the axes that compose, and their composition.

Where KV lies (placement), what is kept and read (retention), how it is stored (storage), who shares
it (sharing).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import NamedTuple

from sim.model.layers import KvFormat
from sim.policy.manager import Manager, Pool
from workloads.errors import InputError
from workloads.given import check_fields, said


def spec_name(kind: type) -> str:
    """What a kind of policy is called on the command line: `SlidingWindow` is `sliding_window`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")


@dataclass(frozen=True)
class Policy(ABC):
    """Options of a policy. Equal specs behave equally."""

    def __post_init__(self) -> None:
        """Raises InputError for an option of another type. Subclasses that check more call it."""
        check_fields(self, prefix=f"{spec_name(type(self))}: ")

    @property
    def limitation(self) -> str | None:
        """What answers lose under it, in a phrase; None where attention stays exact."""
        return None

    @abstractmethod
    def manager(self, pool: Pool) -> Manager:
        """A fresh manager over the pool. Raises InputError where the pool can't hold a token."""

    def __add__(self, modifier: "Policy") -> "Policy":
        """`Paging(16) + Int8()`: the composition that `paging:block_size=16+int8` names."""
        if not isinstance(modifier, Policy):
            raise InputError(
                f"{_name(self)} + {said(modifier)}: expected a policy such as Int8(), or the whole "
                'as text, "paging+int8"'
            )
        return compose(self, modifier)


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

    @property
    @abstractmethod
    def format(self) -> KvFormat:
        """The same as `--kv-cache-dtype` would name it: kernels are timed for one format."""

    @abstractmethod
    def apply(self, pool: Pool) -> Pool:
        """The same memory with another size of token."""


@dataclass(frozen=True)
class Sharing(Modifier):
    """Which sequences share what they hold."""

    @abstractmethod
    def share(self, placement: Placement, pool: Pool, retained: Retained) -> Manager:
        """A manager instead of the placement's own. Raises InputError where they don't fit."""


AXES: tuple[type[Policy], ...] = (Placement, Retention, Storage, Sharing)


@dataclass(frozen=True)
class Composition(Policy):
    """A placement, or a whole policy of a third party, and its modifiers. `compose` checks them.

    Storage changes the size of a token, so it wraps any policy; retention and sharing need a
    placement that knows of them.
    """

    base: Policy
    retention: Retention | None = None
    storage: Storage | None = None
    sharing: Sharing | None = None

    @property
    def limitation(self) -> str | None:
        return "; ".join(filter(None, [part.limitation for part in parts_of(self)])) or None

    def manager(self, pool: Pool) -> Manager:
        if self.storage:
            pool = self.storage.apply(pool)
        retained = KEEP_ALL
        if self.retention:
            pool, retained = self.retention.apply(pool)
        if not isinstance(self.base, Placement):
            return self.base.manager(pool)
        if self.sharing:
            return self.sharing.share(self.base, pool, retained)
        return self.base.place(pool, retained)


def axis(kind: type[Policy]) -> str:
    """The axis of a kind of policy: placement, retention, storage, sharing; else "policy"."""
    found = next((one for one in AXES if issubclass(kind, one)), Policy)
    return found.__name__.lower()


def compose(*parts: Policy) -> Policy:
    """The policy that the parts make together; a part may be a composition itself.

    Raises InputError in one line for two of one axis, or modifiers without anything before them.
    """
    flat = [part for whole in parts for part in parts_of(whole)]
    first, modifiers = flat[0], flat[1:]
    if not modifiers:
        return first
    if isinstance(first, Modifier):
        placed = [_name(part) for part in flat if not isinstance(part, Modifier)]
        behind = [_name(part) for part in flat if isinstance(part, Modifier)]
        usual = "preallocation" if isinstance(first, Retention) else "paging"
        meant = "+".join([*(placed[:1] or [usual]), *behind])
        raise InputError(
            f"{_name(first)}+{_name(modifiers[0])}: expected a placement first: {meant}"
        )
    found: dict[str, Policy] = {}
    for part in modifiers:
        kind = axis(type(part))
        if not isinstance(part, Modifier):
            raise InputError(f"{_name(first)}+{_name(part)}: one policy can have one placement")
        if kind in found:
            raise InputError(f"{_name(found[kind])}+{_name(part)}: both decide {kind}")
        if kind != "storage" and not isinstance(first, Placement):
            raise InputError(f"{_name(first)}+{_name(part)}: {_name(first)} decides {kind} itself")
        found[kind] = part
    return Composition(first, **found)  # type: ignore[arg-type]  # keyed by axis above


def parts_of(policy: Policy) -> list[Policy]:
    """The policy itself, or what a composition is made of, its base first."""
    if not isinstance(policy, Composition):
        return [policy]
    values = [getattr(policy, field.name) for field in fields(policy)]
    return [value for value in values if value is not None]


def format_under(policy: Policy, engine: KvFormat) -> KvFormat:
    """How KV is stored: as the policy says, else as the engine's option does."""
    return next((part.format for part in parts_of(policy) if isinstance(part, Storage)), engine)


def _name(policy: Policy) -> str:
    return spec_name(type(policy))
