"""Layer groups of a configuration: which layers keep everything, a window, or a latent vector."""

from collections import Counter

from sim.model.config_fields import Fields
from sim.model.layers import Kind, LayerGroup
from workloads.errors import InputError

LAYER_TYPES: dict[str, Kind] = {
    "full_attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "chunked",
}

UNMODELLED = {
    # fields of architectures whose state isn't a KV cache of text tokens alone
    "ssm_cfg": "state-space layers",
    "mamba_d_state": "state-space layers",
    "ssm_state_size": "state-space layers",
    "hybrid_override_pattern": "state-space layers",
    "linear_num_key_heads": "linear attention",
    "cross_attention_layers": "cross-attention layers",
    "attn_config": "a nested attn_config",
}


def layer_groups(fields: Fields) -> tuple[LayerGroup, ...]:
    """Groups in the order full, MLA, windowed, chunked, shared. Raises InputError on others."""
    for key, what in UNMODELLED.items():
        if fields.has(key):
            raise InputError(f"{fields.where}: {key}: {what} can't be sized; expected attention")
    layers = fields.integer("num_hidden_layers")
    if fields.has("kv_lora_rank"):
        latent, rotary = fields.integer("kv_lora_rank"), fields.integer("qk_rope_head_dim")
        return (LayerGroup(layers, "mla", 1, latent + rotary, 0, latent_dim=latent),)
    kinds = layer_kinds(fields)
    shared = fields.integer("num_kv_shared_layers", 0)
    if shared >= layers:
        raise InputError(
            f"{fields.where}: num_kv_shared_layers={shared}, expected less than {layers} layers"
        )
    kinds[layers - shared :] = ["shared"] * shared
    counts = Counter(kinds)
    order: tuple[Kind, ...] = ("full", "window", "chunked", "shared")
    return tuple(_group(fields, kind, counts[kind]) for kind in order if counts[kind])


def _group(fields: Fields, kind: Kind, layers: int) -> LayerGroup:
    heads, dim = fields.kv_heads(), fields.head_dim()
    if kind == "full":  # Gemma 4's global layers have their own geometry
        heads = fields.integer("num_global_key_value_heads", 0) or heads
        dim = fields.integer("global_head_dim", 0) or dim
    window = None
    if kind == "window":
        window = fields.integer("sliding_window")
    elif kind == "chunked":
        window = fields.integer("attention_chunk_size")
    return LayerGroup(layers, kind, heads, dim, fields.integer("v_head_dim", 0) or dim, window)


def layer_kinds(fields: Fields) -> list[Kind]:
    """The kind of each layer, first to last."""
    layers = fields.integer("num_hidden_layers")
    listed = fields.items("layer_types")
    if listed is not None:
        for number, kind in enumerate(listed):
            if kind not in LAYER_TYPES:
                known = ", ".join(LAYER_TYPES)
                raise InputError(
                    f"{fields.where}: layer_types[{number}]={kind!r}, expected one of {known}"
                )
        return [LAYER_TYPES[str(kind)] for kind in listed]
    if fields.has("attention_chunk_size"):
        return _chunked(fields, layers)
    # Qwen writes the window of a switched-off sliding window; absent, its class means "off".
    used = fields.flag("use_sliding_window", not fields.has("max_window_layers"))
    if not fields.has("sliding_window") or not used:
        return ["full"] * layers
    if fields.has("sliding_window_pattern"):
        period = fields.integer("sliding_window_pattern")
        return ["window" if (i + 1) % period else "full" for i in range(layers)]
    first = fields.integer("max_window_layers", 0)
    return ["window" if i >= first else "full" for i in range(layers)]


def _chunked(fields: Fields, layers: int) -> list[Kind]:
    """Llama 4: layers with rotary positions see their chunk, every fourth sees everything."""
    rotary = fields.items("no_rope_layers")
    if rotary:
        return ["chunked" if bool(flag) else "full" for flag in rotary]
    period = fields.integer("no_rope_layer_interval", 4)
    return ["chunked" if (i + 1) % period else "full" for i in range(layers)]
