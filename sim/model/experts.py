"""MLPs and experts: which layers have which, and how many weights they are."""

from typing import NamedTuple

from sim.model.config_fields import Fields
from sim.model.layouts import Kinds
from sim.model.traits import Traits
from workloads.errors import InputError


class Mlps(NamedTuple):
    """Weights over all layers, the inner size of a routed expert and how many a layer has."""

    dense: int = 0
    shared: int = 0
    router: int = 0
    experts: int = 0
    active: int = 0
    vectors: int = 0
    inner: int = 0
    number: int = 0


def count_mlps(fields: Fields, traits: Traits, kinds: list[Kinds]) -> Mlps:
    """Dense and shared MLPs, router, all routed and one token's routed experts, and biases."""
    layers = len(kinds)
    with_mlp, with_experts = mlp_layers(fields, kinds)
    widths = mlp_widths(fields, traits, layers)
    hidden = fields.integer("hidden_size")
    matrices = 3 if traits.gated else 2
    ups = matrices - 1
    dense = vectors = 0
    for layer in with_mlp - with_experts:
        dense += matrices * hidden * widths[layer]
        vectors += (ups * widths[layer] + hidden) if traits.mlp_bias else 0
    if not with_experts:
        return Mlps(dense, vectors=vectors)
    return _experts(fields, traits, with_experts, layers, Mlps(dense, vectors=vectors))


def _experts(
    fields: Fields, traits: Traits, with_experts: set[int], layers: int, mlps: Mlps
) -> Mlps:
    hidden, moe_layers = fields.integer("hidden_size"), len(with_experts)
    matrices = 3 if traits.gated else 2
    count, chosen = fields.integer("num_experts"), one_number(fields, "num_experts_per_tok", layers)
    if chosen > count:
        raise InputError(
            f"{fields.where}: {fields.find('num_experts_per_tok')[0]}={chosen}, expected at most "
            f"{count} experts"
        )
    width = expert_width(fields, layers)
    one = matrices * hidden * width
    gate = hidden if traits.shared_gate and fields.has("shared_expert_intermediate_size") else 0
    vectors = mlps.vectors + moe_layers * gate
    if traits.mlp_bias:
        vectors += moe_layers * count * ((matrices - 1) * width + hidden)
    if traits.router_bias:
        vectors += moe_layers * count
    dense = mlps.dense
    if fields.flag("enable_moe_block", False):  # Gemma 4: a dense MLP beside the experts
        dense += moe_layers * matrices * hidden * fields.integer("intermediate_size")
    return Mlps(
        dense,
        shared=moe_layers * matrices * hidden * shared_width(fields, width, layers),
        router=moe_layers * hidden * count,
        experts=moe_layers * count * one,
        active=moe_layers * chosen * one,
        vectors=vectors,
        inner=width,
        number=count,
    )


def mlp_layers(fields: Fields, kinds: list[Kinds]) -> tuple[set[int], set[int]]:
    """Layers that have an MLP of some sort, and of those the ones with routed experts."""
    layers = set(range(len(kinds)))
    pattern = fields.string("hybrid_override_pattern", "")
    if pattern:
        with_experts = {i for i, letter in enumerate(pattern) if letter == "E"}
        return {i for i, letter in enumerate(pattern) if letter == "-"} | with_experts, with_experts
    if fields.string("model_type", "") == "mamba2":
        return set(), set()
    if not fields.integer("num_experts", 0):
        return layers, set()
    return layers, {i for i in layers if _has_experts(fields, i, len(layers))}


def _has_experts(fields: Fields, layer: int, layers: int) -> bool:
    listed = fields.find("moe_layers")[1]
    if isinstance(listed, list) and listed:
        return layer in listed
    enum = fields.find("moe_layers_enum")[1]
    if isinstance(enum, str) and enum:
        return str(layer) in enum.split(",")
    types = fields.find("mlp_layer_types")[1]
    if isinstance(types, list) and len(types) == layers:
        return bool(types[layer] == "sparse")
    frequency = fields.find("moe_layer_freq")[1]
    if isinstance(frequency, list):
        return bool(frequency[layer])
    only = fields.find("mlp_only_layers")[1]
    if isinstance(only, list) and layer in only:
        return False
    if layer < max(
        fields.integer("first_k_dense_replace", 0), fields.integer("num_dense_layers", 0)
    ):
        return False
    if layer < fields.integer("moe_layer_start_index", 0):
        return False
    if frequency is not None and layer % fields.integer("moe_layer_freq"):
        return False
    if fields.has("expert_layer_period"):
        period = fields.integer("expert_layer_period")
        return layer % period == fields.integer("expert_layer_offset", 0)
    step = fields.integer("interleave_moe_layer_step", 0) or fields.integer(
        "decoder_sparse_step", 1
    )
    return (layer + 1) % step == 0


def mlp_widths(fields: Fields, traits: Traits, layers: int) -> list[int]:
    """Intermediate size of each layer's dense MLP; GPT-2 leaves out 4 × hidden_size.

    0 where every layer has experts and no dense width is given.
    """
    name = "intermediate_size_mlp" if fields.has("intermediate_size_mlp") else "intermediate_size"
    if not fields.has(name):
        if not traits.gated:
            return [4 * fields.integer("hidden_size")] * layers
        if fields.has("num_experts") or fields.string("model_type", "") == "mamba2":
            return [0] * layers
    if fields.flag("block_auto_adjust_ff_dim", False):  # LFM2: two thirds, rounded up
        multiple = fields.integer("block_multiple_of", 256)
        width = int(
            fields.number("block_ffn_dim_multiplier", 1.0) * (2 * fields.integer(name) // 3)
        )
        return [multiple * -(-width // multiple)] * layers
    return fields.integers(name, layers)


def expert_width(fields: Fields, layers: int) -> int:
    """Intermediate size of one routed expert."""
    if fields.has("moe_intermediate_size"):
        return one_number(fields, "moe_intermediate_size", layers)
    return one_number(fields, "intermediate_size", layers)


def shared_width(fields: Fields, width: int, layers: int) -> int:
    """Intermediate size of the experts that every token passes, together."""
    given = fields.integer("shared_expert_intermediate_size", 0)
    if fields.string("model_type", "") == "llama4_text":
        return width
    if fields.has("n_shared_experts"):
        return given or one_number(fields, "n_shared_experts", layers) * width
    return given


def one_number(fields: Fields, key: str, layers: int) -> int:
    """A count that a file may give once, or once a layer: then all must agree."""
    value = fields.find(key)[1]
    if not isinstance(value, list):
        return fields.integer(key, 0) if key == "n_shared_experts" else fields.integer(key)
    found = set(fields.integers(key, layers))
    if len(found) != 1:
        raise InputError(f"{fields.where}: {key} differs between layers, expected one value")
    return found.pop()


def widest(fields: Fields, traits: Traits, layers: int) -> int:
    """Intermediate size of the widest MLP a token passes: chosen experts are computed together."""
    dense = max(mlp_widths(fields, traits, layers), default=0)
    if not fields.integer("num_experts", 0):
        return dense
    chosen = one_number(fields, "num_experts_per_tok", layers)
    return max(dense, chosen * expert_width(fields, layers))
