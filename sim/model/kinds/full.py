"""Full attention: keys and values of every token."""

from sim.model.config_fields import Fields
from sim.model.layers import LayerGroup

FIELDS = frozenset(
    {
        "num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim", "multi_query",
        "new_decoder_architecture", "num_global_key_value_heads", "global_head_dim",
    }
)  # fmt: skip


def read(fields: Fields, layers: int) -> LayerGroup:
    """Layers of full attention. Gemma 4's have a head dimension, and maybe heads, of their own."""
    heads, dim = fields.kv_heads(), fields.head_dim()
    if fields.has("global_head_dim"):
        dim = fields.integer("global_head_dim")
        if fields.flag("attention_k_eq_v", False):
            heads = fields.integer("num_global_key_value_heads", 0) or heads
    return LayerGroup(layers, "full", heads, dim, fields.integer("v_head_dim", 0) or dim)
