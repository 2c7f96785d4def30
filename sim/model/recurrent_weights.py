"""Weights of layers that keep a state: matrices, and what is a vector (convolutions included)."""

from sim.model.config_fields import Fields
from sim.model.states import StateKind


def count_recurrent(fields: Fields, kind: StateKind) -> tuple[int, int]:
    """Matrices and vectors of one layer of that kind."""
    return {
        "gated_delta_net": _gated_delta_net,
        "kda": _kda,
        "lightning": _lightning,
        "mamba": _mamba,
        "mamba2": _mamba2,
        "short_conv": _short_conv,
    }[kind](fields)


def _gated_delta_net(fields: Fields) -> tuple[int, int]:
    hidden = fields.integer("hidden_size")
    heads, dim = fields.integer("linear_num_value_heads"), fields.integer("linear_value_head_dim")
    keys = fields.integer("linear_num_key_heads") * fields.integer("linear_key_head_dim")
    values = heads * dim
    # queries, keys, values, their gate, two numbers a head; the output
    matrices = hidden * (2 * keys + 2 * values + 2 * heads) + values * hidden
    kernel = fields.integer("linear_conv_kernel_dim")
    return matrices, (2 * keys + values) * kernel + 2 * heads + dim


def _kda(fields: Fields) -> tuple[int, int]:
    own = fields.nested("linear_attn_config")
    hidden, heads, dim = (
        fields.integer("hidden_size"),
        own.integer("num_heads"),
        own.integer("head_dim"),
    )
    wide, kernel = heads * dim, own.integer("short_conv_kernel_size")
    gates = 2 * (hidden * dim + dim * wide) + hidden * heads  # two of low rank, and beta
    return 4 * hidden * wide + gates, 3 * wide * kernel + heads + wide + dim


def _lightning(fields: Fields) -> tuple[int, int]:
    hidden = fields.integer("hidden_size")
    wide = fields.integer("num_attention_heads") * fields.head_dim()
    return 5 * hidden * wide, wide


def _mamba(fields: Fields) -> tuple[int, int]:
    hidden = fields.integer("hidden_size")
    channels, state = fields.integer("mamba_expand") * hidden, fields.integer("mamba_d_state")
    rank = fields.find("mamba_dt_rank")[1]
    rank = rank if isinstance(rank, int) else -(-hidden // 16)
    matrices = 3 * hidden * channels + channels * (2 * rank + 2 * state)
    kernel = fields.integer("mamba_d_conv")
    return matrices, channels * (kernel + 1 + 1 + state + 1) + rank + 2 * state


def _mamba2(fields: Fields) -> tuple[int, int]:
    hidden = fields.integer("hidden_size")
    heads, state = fields.integer("mamba_n_heads"), fields.integer("mamba_d_state")
    groups = fields.integer("mamba_n_groups", 1)
    channels = fields.integer("mamba_d_ssm", 0)
    dim = fields.find("mamba_d_head")[1]
    channels = channels or (
        heads * dim if isinstance(dim, int) else fields.integer("mamba_expand") * hidden
    )
    both = channels + 2 * groups * state
    matrices = hidden * (channels + both + heads) + channels * hidden
    return matrices, both * (fields.integer("mamba_d_conv") + 1) + 3 * heads + channels


def _short_conv(fields: Fields) -> tuple[int, int]:
    hidden = fields.integer("hidden_size")
    return 4 * hidden * hidden, hidden * fields.integer("conv_L_cache")
