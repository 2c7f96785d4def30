"""Exact parameter counts of a configuration.

Shapes come from fields. What no field says (biases, norms) is the architecture's, by `model_type`.
"""

from dataclasses import dataclass

from sim.model.config_fields import Fields
from sim.model.hf_layers import layer_groups
from sim.model.layers import LayerGroup
from sim.model.weights import Weights
from workloads.errors import InputError


@dataclass(frozen=True, slots=True)
class Traits:
    """What an architecture adds to Llama's layer. Source: transformers, models/*/modeling_*.py."""

    gated: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    norms: int = 2  # per layer
    norm_bias: bool = False  # LayerNorm instead of RMSNorm
    qk_norm: bool = False
    sinks: bool = False  # a learned logit per head
    router_bias: bool = False


LAYER_NORM = {"gated": False, "qkv_bias": True, "out_bias": True, "mlp_bias": True}
TRAITS = {
    "llama": Traits(),
    "mistral": Traits(),
    "mixtral": Traits(),
    "qwen2": Traits(qkv_bias=True),
    "qwen2_moe": Traits(qkv_bias=True),
    "qwen3": Traits(qk_norm=True),
    "qwen3_moe": Traits(qk_norm=True),
    "gemma": Traits(),
    "gemma2": Traits(norms=4),
    "gemma3_text": Traits(norms=4, qk_norm=True),
    "deepseek_v2": Traits(),
    "deepseek_v3": Traits(router_bias=True),
    "gpt_oss": Traits(qkv_bias=True, out_bias=True, mlp_bias=True, sinks=True, router_bias=True),
    "opt": Traits(**LAYER_NORM, norm_bias=True),
    "gpt2": Traits(**LAYER_NORM, norm_bias=True),
    "phi": Traits(**LAYER_NORM, norm_bias=True, head_bias=True, norms=1),
}

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def is_gated(fields: Fields) -> bool:
    """Whether the MLP has a gate beside its up projection."""
    return _traits(fields).gated


def mlp_width(fields: Fields) -> int:
    """Intermediate size of a dense MLP; GPT-2 leaves it out where it is 4 × hidden_size.

    0 where every layer has experts and no dense width is given.
    """
    if not is_gated(fields):
        return fields.integer("intermediate_size", 4 * fields.integer("hidden_size"))
    if fields.has("num_experts"):
        return fields.integer("intermediate_size", 0)
    return fields.integer("intermediate_size")


def count_weights(fields: Fields, outer: Fields, notes: list[str]) -> Weights:
    """Parameters by use. Appends to `notes` what was assumed."""
    traits = _traits(fields)
    if fields.string("model_type", "") not in TRAITS:
        kind = fields.string("model_type", "missing")
        notes.append(f"weights are counted as Llama's (model_type {kind})")
    hidden, vocab = fields.integer("hidden_size"), fields.integer("vocab_size")
    layers = fields.integer("num_hidden_layers")
    attention = kv = vectors = 0
    for group in layer_groups(fields):
        counted = _mla(fields) if group.kind == "mla" else _attention(fields, group, traits)
        attention += group.layers * counted[0]
        kv += group.layers * counted[1]
        vectors += group.layers * counted[2]
    norm = hidden * (2 if traits.norm_bias else 1)
    vectors += norm * (traits.norms * layers + 1)
    moe_layers = _moe_layers(fields, layers)
    dense, router, experts, active, biases = _mlps(fields, traits, layers, moe_layers)
    embedding = vocab * hidden
    if not fields.uses_rotary() and fields.string("model_type", "") in {"opt", "gpt2"}:
        offset = 2 if fields.string("model_type", "") == "opt" else 0  # OPT's table starts at 2
        embedding += (fields.integer("max_position_embeddings") + offset) * hidden
    tied = fields.flag("tie_word_embeddings", False)
    names, bits, block = _quantisation(fields)
    return Weights(
        embedding=embedding,
        lm_head=0 if tied else vocab * hidden,
        attention=attention,
        kv_projection=kv,
        mlp=dense,
        router=router,
        experts=experts,
        active_experts=active,
        vectors=vectors + biases + (vocab if traits.head_bias else 0),
        other=outer.integer("other_parameters", 0),
        dtype_bytes=_dtype_bytes(fields),
        quantised=names,
        stored_bits=bits,
        stored_weights=block,
    )


def _traits(fields: Fields) -> Traits:
    return TRAITS.get(fields.string("model_type", ""), Traits())


def _attention(fields: Fields, group: LayerGroup, traits: Traits) -> tuple[int, int, int]:
    """Query and output weights, key and value weights, vectors of one layer."""
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    queries, keys = heads * group.head_dim, group.kv_heads * group.head_dim
    values, out = group.kv_heads * group.v_head_dim, heads * group.v_head_dim
    vectors = heads if traits.sinks else 0
    if fields.flag("attention_bias", traits.qkv_bias):
        vectors += queries + keys + values
    if fields.flag("attention_bias", traits.out_bias):
        vectors += hidden
    if traits.qk_norm:
        vectors += 2 * group.head_dim
    return hidden * (queries + out), hidden * (keys + values), vectors


def _mla(fields: Fields) -> tuple[int, int, int]:
    """The same for multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, appendix C)."""
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    latent, rotary = fields.integer("kv_lora_rank"), fields.integer("qk_rope_head_dim")
    plain, value = fields.integer("qk_nope_head_dim"), fields.integer("v_head_dim")
    rank = fields.integer("q_lora_rank", 0)
    query = heads * (plain + rotary)
    query_weights = rank * (hidden + query) if rank else hidden * query
    up = latent * heads * (plain + value)
    down = hidden * (latent + rotary)
    return query_weights + up + heads * value * hidden, down, rank + latent


def _moe_layers(fields: Fields, layers: int) -> int:
    """Layers with routed experts."""
    if not fields.integer("num_experts", 0):
        return 0
    dense = set(range(fields.integer("first_k_dense_replace", 0)))
    listed = fields.find("mlp_only_layers")[1]
    if isinstance(listed, list):
        dense.update(int(i) for i in listed)
    step = fields.integer("decoder_sparse_step", 1)
    return sum((i + 1) % step == 0 and i not in dense for i in range(layers))


def _mlps(
    fields: Fields, traits: Traits, layers: int, moe_layers: int
) -> tuple[int, int, int, int, int]:
    """Dense, router, all routed, active routed weights, and biases, over all layers."""
    hidden = fields.integer("hidden_size")
    matrices = 3 if traits.gated else 2
    ups = matrices - 1
    dense_layers = layers - moe_layers
    wide = mlp_width(fields)
    dense = dense_layers * matrices * hidden * wide
    biases = dense_layers * (ups * wide + hidden) if traits.mlp_bias else 0
    if not moe_layers:
        return dense, 0, 0, 0, biases
    count, chosen = fields.integer("num_experts"), fields.integer("num_experts_per_tok")
    if chosen > count:
        raise InputError(
            f"{fields.where}: num_experts_per_tok={chosen}, expected at most {count} experts"
        )
    width = fields.integer("moe_intermediate_size", 0) or fields.integer("intermediate_size")
    one = matrices * hidden * width
    shared = fields.integer("shared_expert_intermediate_size", 0)
    shared = shared or fields.integer("n_shared_experts", 0) * width
    dense += moe_layers * matrices * hidden * shared
    if fields.has("shared_expert_intermediate_size") and shared:
        biases += moe_layers * hidden  # the shared expert's gate, one weight a channel
    if traits.mlp_bias:
        biases += moe_layers * count * (ups * width + hidden)
    if traits.router_bias:
        biases += moe_layers * count
    router = moe_layers * hidden * count
    return dense, router, moe_layers * count * one, moe_layers * chosen * one, biases


def _dtype_bytes(fields: Fields) -> int:
    name = fields.string("dtype", fields.string("torch_dtype", "bfloat16"))
    if name not in DTYPE_BYTES:
        raise InputError(
            f"{fields.where}: dtype={name!r}, expected one of {', '.join(DTYPE_BYTES)}"
        )
    return DTYPE_BYTES[name]


def _quantisation(fields: Fields) -> tuple[tuple[str, ...], int, int]:
    """Quantised fields, and `bits` per `block` of their weights, scales included."""
    spec = fields.find("quantization_config")[1]
    if not isinstance(spec, dict):
        return (), 16, 1
    inner = Fields(spec, f"{fields.where}: quantization_config")
    linear = ("attention", "kv_projection", "mlp", "experts")
    method = inner.string("quant_method", "missing")
    if method == "mxfp4":  # experts alone: 32 weights of 4 bits and a scale of 8
        return ("experts",), 32 * 4 + 8, 32
    if method in {"awq", "gptq"}:  # a 16-bit scale and a zero point per group
        bits, group = inner.integer("bits"), inner.integer("group_size", 128)
        return linear, group * bits + 16 + bits, group
    if method == "fp8":
        shape = inner.find("weight_block_size")[1]
        if isinstance(shape, list) and len(shape) == 2:
            block = int(shape[0]) * int(shape[1])
            return linear, block * 8 + 32, block
        return linear, 8, 1
    raise InputError(
        f"{inner.where}: quant_method={method!r}, expected one of awq, gptq, fp8, mxfp4"
    )
