"""One placement and at most one modifier of each other axis, as one policy."""

from dataclasses import dataclass, fields

from sim.policy.axes import KEEP_ALL, Modifier, Placement, Retention, Sharing, Storage
from sim.policy.base import Manager, Policy, Pool, spec_name
from workloads.errors import InputError

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
        raise InputError(f"{_name(first)}+{_name(modifiers[0])}: expected a placement first")
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


def _name(policy: Policy) -> str:
    return spec_name(type(policy))
