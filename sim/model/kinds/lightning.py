"""Lightning attention (arXiv:2401.04658): a matrix a head, which vLLM keeps in the model's type."""

from sim.model.config_fields import Fields
from sim.model.states import StateGroup, StatePart

FIELDS = frozenset({"attn_type_list"})


def read(fields: Fields, layers: int) -> StateGroup:
    """Layers with as many heads as full attention has for queries."""
    heads, dim = fields.integer("num_attention_heads"), fields.head_dim()
    part = StatePart("state", heads * dim * dim, fields.dtype_bytes(), heads)
    return StateGroup(layers, "lightning", (part,))
