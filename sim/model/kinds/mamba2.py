"""Mamba 2 (arXiv:2405.21060): a matrix a head, and the convolution's last inputs."""

from sim.model.config_fields import Fields
from sim.model.states import StateGroup, StatePart
from workloads.errors import InputError

FIELDS = frozenset(
    {
        "mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv",
        "mamba_expand", "mamba_d_ssm", "mamba_num_heads", "mamba_head_dim", "ssm_state_size",
        "n_groups", "conv_kernel", "expand", "state_size", "num_heads", "head_dim",
        "mamba_ssm_cache_dtype",
    }
)  # fmt: skip


def read(fields: Fields, layers: int) -> StateGroup:
    """Layers whose convolution spans inputs and, for each group of heads, B and C."""
    heads, state = fields.integer("mamba_n_heads"), fields.integer("mamba_d_state")
    channels = _channels(fields, heads)
    if channels % heads:
        raise InputError(
            f"{fields.where}: {channels} Mamba channels, expected a multiple of "
            f"{fields.find('mamba_n_heads')[0]}={heads}"
        )
    groups, inputs = fields.integer("mamba_n_groups", 1), fields.integer("mamba_d_conv") - 1
    own = fields.dtype_bytes()
    return StateGroup(
        layers,
        "mamba2",
        (
            StatePart("conv", inputs * channels, own, heads),
            # a GPU holds B and C of each group that its heads belong to
            StatePart("conv B and C", inputs * 2 * groups * state, own, groups),
            StatePart(
                "state", channels * state, fields.dtype_bytes("mamba_ssm_cache_dtype", own), heads
            ),
        ),
    )


def _channels(fields: Fields, heads: int) -> int:
    """Channels of the recurrence: given, or heads × their dimension, or expand × hidden size."""
    if fields.has("mamba_d_ssm"):
        return fields.integer("mamba_d_ssm")
    if isinstance(fields.find("mamba_d_head")[1], int):
        return heads * fields.integer("mamba_d_head")
    return fields.integer("mamba_expand") * fields.integer("hidden_size")
