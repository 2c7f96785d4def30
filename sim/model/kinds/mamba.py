"""Mamba (arXiv:2312.00752): a vector of states a channel, and the convolution's last inputs."""

from sim.model.config_fields import Fields
from sim.model.states import StateGroup, StatePart

FIELDS = frozenset(
    {
        "mamba_d_state", "mamba_d_conv", "mamba_expand", "mamba_dt_rank", "state_size",
        "conv_kernel", "expand", "mamba_ssm_cache_dtype",
    }
)  # fmt: skip


def read(fields: Fields, layers: int) -> StateGroup:
    """Layers of `mamba_expand` times as many channels as the hidden size."""
    channels = fields.integer("mamba_expand") * fields.integer("hidden_size")
    inputs, own = fields.integer("mamba_d_conv") - 1, fields.dtype_bytes()
    state = fields.dtype_bytes("mamba_ssm_cache_dtype", own)
    return StateGroup(
        layers,
        "mamba",
        (
            StatePart("conv", inputs * channels, own, channels),
            StatePart("state", channels * fields.integer("mamba_d_state"), state, channels),
        ),
    )
