"""Sparse latent attention: an indexer chooses which tokens' latent vectors a query reads.

DeepSeek-V3.2-Exp report, section 2.1. The indexer's keys are a cache of their own: 8 bits an
element and a 32-bit scale for each 128 of them, whatever the latent vectors are stored in.
"""

from sim.model.config_fields import Fields
from sim.model.kinds import latent
from sim.model.layers import LayerGroup

FIELDS = latent.FIELDS | {"index_head_dim", "index_n_heads", "index_topk", "indexer_types"}
QUANTUM = 128  # indexer elements that share a scale


def read(fields: Fields, layers: int) -> tuple[LayerGroup, LayerGroup]:
    """The layers' latent vectors, and their indexers' keys (32-bit scales within)."""
    one = latent.read(fields, layers)
    few = fields.integer("index_topk")
    dim = fields.integer("index_head_dim")
    side = 4 * -(-dim // QUANTUM)
    sparse = LayerGroup(
        layers, "sparse_mla", 1, one.head_dim, 0, latent_dim=one.latent_dim, selects=few
    )
    keys = LayerGroup(layers, "indexer", 1, dim, 0, own_bytes=dim + side, own_side=side)
    return sparse, keys
