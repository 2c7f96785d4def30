"""Numbers that a configuration must not have: zeros to divide by, and two that contradict."""

from sim.model.config_fields import ALIASES, Fields, shown
from workloads.errors import InputError

DIVISORS = (
    "full_attention_interval", "decoder_sparse_step", "mamba_n_groups", "num_key_value_heads",
    "interleave_moe_layer_step", "no_rope_layer_interval", "moe_layer_interval",
    "block_multiple_of", "swa_num_key_value_heads", "swa_num_attention_heads",
)  # fmt: skip
"""What is divided by: where it is there, it is positive."""

TWINS = {
    **{
        key: ALIASES[key]
        for key in (
            "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size",
        )
    },
    "sliding_window": ("sliding_window_size",),
}  # fmt: skip
"""Spellings of one number: where a file has two, they agree, or one of them isn't read."""

OBJECTS = ("rope_scaling", "rope_parameters")


def check_values(fields: Fields, known: frozenset[str]) -> None:
    """Raise InputError for the first field, in one line, that can't be what it says.

    Spellings in `known` have a meaning of their own in that family (T5's num_layers).
    """
    for key in DIVISORS:
        if fields.has(key):
            fields.integer(key)  # positive
    for key, others in TWINS.items():
        if key not in fields.names:
            own = known.intersection(ALIASES.get(key, ()))
            _check_twins(fields, key, [one for one in others if one not in own])
    for key in OBJECTS:
        value = fields.content.get(key)
        if value is not None and not isinstance(value, dict):
            raise InputError(f"{fields.where}: {key}={shown(value)}, expected an object")
    _check_layers(fields)
    full_attn_mod = fields.integer("full_attn_mod", 1)
    if full_attn_mod != 1:
        raise InputError(
            f"{fields.where}: full_attn_mod={full_attn_mod}, expected 1: other values aren't read"
        )


def _check_twins(fields: Fields, key: str, others: list[str]) -> None:
    read, value = fields.find(key)
    for other in others:
        given = fields.content.get(other)
        if given is not None and given != value:
            raise InputError(
                f"{fields.where}: {other}={shown(given)} is not read beside {read}={shown(value)}, "
                "and it may change what attention keeps; expected one of them, or equal ones"
            )


def _check_layers(fields: Fields) -> None:
    """Numbers of layers lie within the model; of a period, within the period."""
    layers = fields.integer("num_hidden_layers", 0)
    for key in ("first_k_dense_replace", "num_dense_layers"):
        dense = fields.integer(key, 0)
        if layers and dense > layers:
            raise InputError(f"{fields.where}: {key}={dense}, expected at most {layers} layers")
    for kind in ("attn_layer", "expert_layer"):
        period, offset = (fields.integer(f"{kind}_{one}", 0) for one in ("period", "offset"))
        if period and offset >= period:
            raise InputError(
                f"{fields.where}: {kind}_offset={offset}, expected less than {kind}_period={period}"
            )
    if fields.has("mlp_only_layers") and layers:
        fields.numbers("mlp_only_layers", layers)
    frequency = fields.find("moe_layer_freq")[1]
    if isinstance(frequency, list):
        fields.items("moe_layer_freq")
    elif frequency is not None:
        fields.integer("moe_layer_freq")
