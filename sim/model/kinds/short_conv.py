"""Gated short convolution (LFM2): the last inputs of each channel."""

from sim.model.config_fields import Fields
from sim.model.states import StateGroup, StatePart

FIELDS = frozenset({"conv_L_cache", "full_attn_idxs", "conv_dim", "conv_dim_out"})


def read(fields: Fields, layers: int) -> StateGroup:
    """Layers with a channel for each of the hidden size."""
    channels = fields.integer("hidden_size")
    inputs = fields.integer("conv_L_cache") - 1
    part = StatePart("conv", inputs * channels, fields.dtype_bytes(), channels)
    return StateGroup(layers, "short_conv", (part,))
