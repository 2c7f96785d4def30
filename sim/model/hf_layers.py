"""Layers of a configuration, in groups of equal ones: what keeps KV of tokens, and what a state."""

from collections import Counter
from collections.abc import Iterator

from sim.model.config_fields import Fields
from sim.model.families import Family
from sim.model.kinds import chunked, cross, full, latent, sparse_latent, window
from sim.model.layers import LayerGroup
from sim.model.layouts import Kinds
from sim.model.states import StateGroup
from workloads.errors import InputError

MOST_LAYERS = 10_000


def layer_kinds(fields: Fields, family: Family) -> list[Kinds]:
    """The kinds of each layer, first to last; the last layers may share others' caches.

    Raises InputError naming the field that doesn't fit.
    """
    layers = fields.integer("num_hidden_layers", 0)
    if layers > MOST_LAYERS:
        raise InputError(
            f"{fields.where}: num_hidden_layers={layers}, expected at most {MOST_LAYERS:,}"
        )
    kinds = family.layout(fields)
    shared = fields.integer("num_kv_shared_layers", 0)
    if shared >= len(kinds):
        raise InputError(
            f"{fields.where}: num_kv_shared_layers={shared}, expected less than {len(kinds)} layers"
        )
    return [*kinds[: len(kinds) - shared], *[("shared",)] * shared]


def layer_groups(fields: Fields, family: Family) -> tuple[LayerGroup, ...]:
    """Layers that keep KV of tokens, in the order full, latent, windowed, chunked, shared."""
    return tuple(
        _groups(fields, Counter(k for kinds in layer_kinds(fields, family) for k in kinds))
    )


def _groups(fields: Fields, counts: Counter[str]) -> Iterator[LayerGroup]:
    if counts["full"]:
        yield full.read(fields, counts["full"])
    if counts["mla"]:
        yield latent.read(fields, counts["mla"])
    if counts["sparse_mla"]:
        yield from sparse_latent.read(fields, counts["sparse_mla"])
    if counts["window"]:
        yield window.read(fields, counts["window"])
    if counts["chunked"]:
        yield chunked.read(fields, counts["chunked"])
    if counts["shared"]:
        heads, dim = fields.kv_heads(), fields.head_dim()
        yield LayerGroup(counts["shared"], "shared", heads, dim, dim)


def state_groups(fields: Fields, family: Family) -> tuple[StateGroup, ...]:
    """Layers that keep a state of a sequence, and those that read an encoder's output."""
    counts = Counter(k for kinds in layer_kinds(fields, family) for k in kinds)
    found = []
    if counts["state"]:
        if family.state is None:
            name, _ = fields.find("layer_types")
            raise InputError(
                f"{fields.where}: {name} has layers of a recurrence, which "
                f"model_type={fields.string('model_type', '')!r} isn't known to have"
            )
        found.append(family.state(fields, counts["state"]))
    if counts["cross"]:
        found.append(cross.read(fields, counts["cross"]))
    return tuple(found)
