"""Gated delta net (arXiv:2412.06464): a matrix a value head, and the convolution's last inputs."""

from sim.model.config_fields import Fields
from sim.model.states import StateGroup, StatePart
from workloads.errors import InputError

FIELDS = frozenset(
    {
        "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
        "linear_value_head_dim", "linear_conv_kernel_dim", "full_attention_interval",
        "mamba_ssm_dtype",
    }
)  # fmt: skip


def read(fields: Fields, layers: int) -> StateGroup:
    """Layers whose convolution spans queries, keys and values of all heads."""
    keys, values = fields.integer("linear_num_key_heads"), fields.integer("linear_num_value_heads")
    if values % keys:
        raise InputError(
            f"{fields.where}: linear_num_value_heads={values}, expected a multiple of "
            f"linear_num_key_heads={keys}"
        )
    key_dim = fields.integer("linear_key_head_dim")
    value_dim = fields.integer("linear_value_head_dim")
    inputs = fields.integer("linear_conv_kernel_dim") - 1
    own = fields.dtype_bytes()
    channels = 2 * keys * key_dim + values * value_dim
    return StateGroup(
        layers,
        "gated_delta_net",
        (
            StatePart("conv", inputs * channels, own, keys),
            StatePart(
                "state",
                values * value_dim * key_dim,
                fields.dtype_bytes("mamba_ssm_dtype", own),
                values,
            ),
        ),
    )
