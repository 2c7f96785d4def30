"""Kimi delta attention (arXiv:2510.26692): a matrix a head in 32 bits, and three convolutions."""

from sim.model.config_fields import Fields
from sim.model.states import StateGroup, StatePart

FIELDS = frozenset({"linear_attn_config"})


def read(fields: Fields, layers: int) -> StateGroup:
    """Layers described by the nested `linear_attn_config`."""
    own = fields.nested("linear_attn_config")
    heads, dim = own.integer("num_heads"), own.integer("head_dim")
    inputs = own.integer("short_conv_kernel_size") - 1
    return StateGroup(
        layers,
        "kda",
        (
            StatePart("conv", inputs * 3 * heads * dim, fields.dtype_bytes(), heads),
            StatePart("state", heads * dim * dim, 4, heads),
        ),
    )
