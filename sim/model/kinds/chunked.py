"""Chunked attention: keys and values of the current chunk (Llama 4's layers with positions)."""

from sim.model.config_fields import Fields
from sim.model.layers import LayerGroup

FIELDS = frozenset({"attention_chunk_size", "no_rope_layers", "no_rope_layer_interval"})


def read(fields: Fields, layers: int) -> LayerGroup:
    """Layers that keep a chunk, which is never longer than the positions that the model has."""
    dim = fields.head_dim()
    chunk = min(fields.integer("attention_chunk_size"), fields.integer("max_position_embeddings"))
    return LayerGroup(layers, "chunked", fields.kv_heads(), dim, dim, chunk)
