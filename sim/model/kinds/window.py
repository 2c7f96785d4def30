"""Sliding-window attention: keys and values of the last tokens."""

from sim.model.config_fields import Fields
from sim.model.layers import LayerGroup

FIELDS = frozenset(
    {
        "sliding_window", "sliding_window_pattern", "use_sliding_window", "max_window_layers",
        "swa_num_key_value_heads", "swa_num_attention_heads", "swa_head_dim", "swa_v_head_dim",
    }
)  # fmt: skip


def read(fields: Fields, layers: int) -> LayerGroup:
    """Layers that keep a window, of their own heads where there are `swa_` fields (MiMo).

    A window is never longer than the positions that the model has.
    """
    heads = fields.integer("swa_num_key_value_heads", 0) or fields.kv_heads()
    dim = fields.integer("swa_head_dim", 0) or fields.head_dim()
    values = fields.integer("swa_v_head_dim", 0) or fields.integer("v_head_dim", 0) or dim
    window = min(fields.integer("sliding_window"), fields.integer("max_position_embeddings"))
    return LayerGroup(layers, "window", heads, dim, values, window)
