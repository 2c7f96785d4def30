"""Multi-head latent attention: one vector a token for all heads (arXiv:2405.04434, section 2.1)."""

from sim.model.config_fields import Fields
from sim.model.layers import LayerGroup

FIELDS = frozenset(
    {"kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "qk_head_dim"}
)


def read(fields: Fields, layers: int) -> LayerGroup:
    """Layers that keep a latent vector and a rotary key."""
    latent, rotary = fields.integer("kv_lora_rank"), fields.integer("qk_rope_head_dim")
    return LayerGroup(layers, "mla", 1, latent + rotary, 0, latent_dim=latent)
