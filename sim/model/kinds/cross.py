"""Cross-attention: keys and values of what an encoder made, as long as a request lives."""

from sim.model.config_fields import Fields
from sim.model.states import StateGroup, StatePart

FIELDS = frozenset({"max_source_positions"})


def read(fields: Fields, layers: int) -> StateGroup:
    """Decoder layers that read an encoder's output of `max_source_positions` tokens."""
    source, heads = fields.integer("max_source_positions"), fields.kv_heads()
    elements = 2 * source * heads * fields.head_dim()
    part = StatePart("keys and values", elements, fields.dtype_bytes(), heads)
    return StateGroup(layers, "cross", (part,))
