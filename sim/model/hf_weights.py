"""Parameter counts of a configuration.

Shapes come from fields. What no field says (biases, norms) is the architecture's, by `model_type`.
"""

from dataclasses import dataclass

from sim.model.config_fields import Fields
from sim.model.experts import count_mlps
from sim.model.families import Family
from sim.model.hf_layers import layer_groups, layer_kinds, state_groups
from sim.model.layers import LayerGroup
from sim.model.recurrent_weights import count_recurrent
from sim.model.traits import Traits, traits_of
from sim.model.weights import Weights


@dataclass(slots=True)
class Counts:
    """Parameters of attention, over all layers."""

    attention: int = 0
    kv: int = 0
    vectors: int = 0


def count_weights(fields: Fields, family: Family, notes: list[str]) -> Weights:
    """Parameters by use, in the model's own type. Appends to `notes` what was assumed."""
    traits, slack = traits_of(fields.string("model_type", ""))
    kinds = layer_kinds(fields, family)
    layers, hidden = len(kinds), fields.integer("hidden_size")
    vocab = fields.integer("vocab_size")
    counts = Counts()
    for group in layer_groups(fields, family):
        _count_attention(fields, group, traits, counts)
    recurrent = 0
    for state in state_groups(fields, family):
        if state.kind == "cross":
            counts.attention += state.layers * 2 * hidden * hidden
            counts.kv += state.layers * 2 * hidden * hidden
        else:
            matrices, vectors = count_recurrent(fields, state.kind)
            recurrent += state.layers * matrices
            counts.vectors += state.layers * vectors
    mlps = count_mlps(fields, traits, kinds)
    norm = hidden * (2 if traits.norm_bias else 1)
    embedding = vocab * hidden + _positions(fields, hidden) + _per_layer(fields, layers)
    if slack:
        kind = fields.string("model_type", "")
        notes.append(
            f"weights are counted to within {float(100 * slack):g} %: the MLP, biases and norms "
            f"of model_type {kind} are taken for those of a kind like it"
        )
    tied = fields.flag("tie_word_embeddings", fields.flag("tie_embedding", False))
    return Weights(
        embedding=embedding,
        lm_head=0 if tied else vocab * hidden,
        attention=counts.attention,
        kv_projection=counts.kv,
        mlp=mlps.dense,
        router=mlps.router,
        experts=mlps.experts,
        active_experts=mlps.active,
        vectors=counts.vectors
        + norm * (traits.norms * layers + 1)
        + mlps.vectors
        + (vocab if traits.head_bias else 0),
        shared=mlps.shared,
        other=_encoder(fields, traits),
        recurrent=recurrent,
        expert_inner=mlps.inner,
        expert_count=mlps.number,
        dtype_bytes=fields.dtype_bytes(),
        slack=slack,
    )


def _positions(fields: Fields, hidden: int) -> int:
    """A table of learned positions, where there is one; OPT's starts at 2."""
    kind = fields.string("model_type", "")
    if kind not in {"opt", "gpt2", "gpt_bigcode", "whisper"}:
        return 0
    return (fields.integer("max_position_embeddings") + (2 if kind == "opt" else 0)) * hidden


def _per_layer(fields: Fields, layers: int) -> int:
    """Gemma 3n's and 4's embeddings of each layer, with their projections."""
    width = fields.integer("hidden_size_per_layer_input", 0)
    if not width:
        return 0
    table = fields.integer("vocab_size_per_layer_input", 0) or fields.integer("vocab_size")
    return layers * width * (table + 3 * fields.integer("hidden_size"))


def _encoder(fields: Fields, traits: Traits) -> int:
    """Matrices of an encoder's layers: attention of its own, and an MLP; resident for each step."""
    layers, hidden = fields.integer("encoder_layers", 0), fields.integer("hidden_size")
    if not layers:
        return 0
    matrices = 3 if traits.gated else 2
    wide = fields.integer("encoder_ffn_dim")
    positions = fields.integer("max_source_positions") * hidden
    return layers * (4 * hidden * hidden + matrices * hidden * wide) + positions


def _count_attention(fields: Fields, group: LayerGroup, traits: Traits, counts: Counts) -> None:
    if group.kind == "indexer":
        matrices, vectors = _indexer(fields, group)
        counts.attention += group.layers * matrices
        counts.vectors += group.layers * vectors
        return
    one = _latent(fields) if group.latent else _plain(fields, group, traits)
    counts.attention += group.layers * one.attention
    counts.kv += group.layers * one.kv
    counts.vectors += group.layers * one.vectors


def _plain(fields: Fields, group: LayerGroup, traits: Traits) -> Counts:
    """Query and output weights, key and value weights, vectors of one layer."""
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    queries, keys = heads * group.head_dim, group.kv_heads * group.head_dim
    values, out = group.kv_heads * group.v_head_dim, heads * group.v_head_dim
    if group.kind == "shared":  # no projections of its own
        keys = values = 0
    vectors = heads if traits.sinks else 0
    if fields.flag("attention_bias", traits.qkv_bias):
        vectors += queries + keys + values
    if traits.out_bias is not None and fields.flag("attention_bias", traits.out_bias):
        vectors += hidden
    if traits.qk_norm:
        vectors += 2 * group.head_dim
    if traits.wide_qk_norm:
        vectors += queries + keys
    if traits.shared_query:  # queries share a low-rank product
        rank = fields.integer("share_q_dim")
        matrices = hidden * (rank + out) + rank * queries
        return Counts(matrices, hidden * (keys + values), vectors + rank)
    if traits.one_kv_matrix and group.kind == "full" and fields.flag("attention_k_eq_v", False):
        values = 0
    gate = queries if traits.query_gate else 0
    return Counts(hidden * (queries + gate + out), hidden * (keys + values), vectors)


def _latent(fields: Fields) -> Counts:
    """The same for multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, appendix C)."""
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    latent, rotary = fields.integer("kv_lora_rank"), fields.integer("qk_rope_head_dim")
    plain, value = fields.integer("qk_nope_head_dim"), fields.integer("v_head_dim")
    rank = fields.integer("q_lora_rank", 0)
    query = heads * (plain + rotary)
    query_weights = rank * (hidden + query) if rank else hidden * query
    up = latent * heads * (plain + value)
    down = hidden * (latent + rotary)
    return Counts(query_weights + up + heads * value * hidden, down, rank + latent)


def _indexer(fields: Fields, group: LayerGroup) -> tuple[int, int]:
    """DeepSeek-V3.2's indexer: queries from the low-rank query, one key and a weight a head."""
    hidden, heads = fields.integer("hidden_size"), fields.integer("index_n_heads")
    rank = fields.integer("q_lora_rank", 0) or hidden
    matrices = rank * heads * group.head_dim + hidden * (group.head_dim + heads)
    return matrices, 2 * group.head_dim
