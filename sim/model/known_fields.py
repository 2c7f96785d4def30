"""Which fields may be passed over: a model is sized only where each field on attention is known.

A field whose name speaks of attention, caches or recurrences, and which nobody here reads, stands
for an architecture that isn't understood. It is refused by name, not taken for Llama's.
"""

import re
from collections.abc import Iterable

from sim.model.config_fields import ALIASES, Fields, shown
from workloads.errors import InputError

SPEAKS = re.compile(
    r"attn|attention|(^|_)kv(_|$)|(^|_)heads?(_|$)|window|sliding|swa|(^|_)(local|global)(_|$)|"
    r"layer_type|block_type|pattern|mamba|ssm|conv(?!ersation)|linear_|(^|_)mla|lora_rank|latent|"
    r"(^|_)index(er)?_|sparse_|topk_(tokens|blocks)|chunk|shared_layers|cross|recurr|rwkv|lru|"
    r"retention|delta|hyena|compress|memory|cache(?!_implementation)|kda|gqa|mqa|query_group|"
    r"multi_query|(^|_)groups$|attention_groups|d_state|state_size|full_attn|nope|interleave|"
    r"expansion|layers_|_interval|_period|_offset|num_.*layers|n_layers?|"
    r"depth|stride|recycl|loop|ut_steps|hybrid|(^|_)cla(_|$)|yoco|kv_channels|dt_rank|titans|hash|engram"
)

SAFE = frozenset(
    {
        # how attention is computed, not what it keeps
        "attention_bias", "attention_dropout", "attention_out_bias", "attn_bias", "attn_pdrop",
        "attention_probs_dropout_prob", "attention_dropout_prob", "attn_dropout",
        "attn_logit_softcapping", "attn_implementation", "_attn_implementation", "attn_scale",
        "_attn_implementation_autoset", "_attn_implementation_internal", "attention_multiplier",
        "attention_softmax_in_fp32", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
        "reorder_and_upcast_attn", "apply_query_key_layer_scaling", "attention_scale",
        "attn_temperature_tuning", "attn_scale_factor", "attention_value_scale", "use_cache",
        "attn_output_gate", "query_pre_attn_scalar", "qk_layernorm", "use_head_wise_attn_gate",
        "use_qk_norm", "qk_norm", "use_gated_attention", "attention_output_gate", "use_flash_attn",
        "attn_implementation_autoset", "use_flash_attention", "attention_in_multiplier",
        "attention_out_multiplier", "key_multiplier", "ssm_multipliers", "ssm_in_multiplier",
        "ssm_out_multiplier", "flash_attention", "parallel_attn", "num_ln_in_parallel_attn",
        "add_swa_attention_sink_bias", "add_full_attention_sink_bias", "swa_rope_theta",
        "global_rope_theta", "local_rope_theta", "rope_local_base_freq", "norm_after_attention",
        "attn_qkv_bias", "attn_rms_norm", "attn_rotary_emb", "cache_implementation", "head_bias",
        "lm_head_bias", "layer_norm_num_heads", "attention_layernorm", "attn_norm", "mla_use_nope",
        "layernorm_full_attention_alpha", "layernorm_full_attention_beta", "use_attention_sink",
        "layernorm_linear_attention_alpha", "layernorm_linear_attention_beta", "attn_gate",
        "linear_attn_alpha_factor", "linear_attn_beta_factor", "full_attn_alpha_factor",
        "full_attn_beta_factor", "attention_head_scale", "use_bidirectional_attention",
        "_sliding_window_chunk", "nope_rope_scaling", "attention_layer_norm", "use_mla",
        # how a recurrence is computed
        "mamba_chunk_size", "chunk_size", "use_mamba_kernels", "mamba_conv_bias", "use_conv_bias",
        "mamba_proj_bias", "mamba_hidden_act", "mamba_rms_norm", "mamba_norm_before_gate",
        "conv_bias", "linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max",
        "linear_dt_init_floor", "linear_allow_neg_eigval", "chunk_size_feed_forward",
        "mamba_use_mlp", "linear_bias", "add_bias_linear", "mamba_outproj_in_precision",
        # weights outside of attention, which the count of weights reads or notes
        "interleave_moe_layer_step", "moe_layers", "moe_layers_enum", "moe_layer_interval",
        "expert_layer_period", "expert_layer_offset", "mlp_layer_types", "num_dense_layers",
        "moe_layer_start_index", "moe_layer_end_index", "first_k_dense_replace", "moe_layer_freq",
        "mlp_only_layers", "decoder_sparse_step", "moe_latent_size", "activation_sparsity_pattern",
        "use_sparse_mlp", "router_layer_type", "num_hash_layers", "initializer_cutoff_factor",
        "conv_use_xavier_init", "shared_head", "tie_word_embeddings", "pad_head_dim_to_multiple_of",
        # further layers that guess tokens; engines run without them unless told to
        "num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules", "mtp_num_layers",
        "mtp_num_hidden_layers", "mtp_hybrid_override_pattern", "mtp_layers_block_type",
        "mtp_transformer_layers", "mtp_layer_types", "mtp_mlp_layer_types", "spec_num_layers",
        "index_n_heads", "index_n_groups", "num_kv_heads_for_draft",
        # names of parts
        "vision_feature_layer", "head_type", "layerdrop", "encoder_layerdrop", "decoder_layerdrop",
        "num_hidden_layers", "pruned_heads", "use_memory_efficient_attention",
        "use_memorry_efficient_attention", "unpadded_inputs", "hidden_size_per_layer_input",
        "hash_seed", "ep_offset", "position_offset", "layer_norm_offset", "cross_layer_norm",
        "lm_head_multiplier", "mlp_expansion_factor", "mamba_inner_layernorms",
        "scale_attention_softmax_in_fp32",
    }
)  # fmt: skip

SPELLINGS = frozenset(name for names in ALIASES.values() for name in names) | frozenset(ALIASES)


def check_known(fields: Fields, known: Iterable[str], kind: str) -> None:
    """Raise InputError for the first field on attention that neither `known` nor SAFE has.

    A field that is off (null, false, an empty list) describes nothing, so it may be unknown.
    """
    read = {*known, *SPELLINGS, *SAFE}
    for name, value in fields.content.items():
        if name in read or value is None or value is False or value in ([], {}, ""):
            continue
        if SPEAKS.search(name) and not isinstance(value, dict):
            raise InputError(
                f"{fields.where}: {name}={shown(value)}: not known for model_type={kind!r}, and "
                "it may change what attention keeps; expected fields that are known"
            )
        if SPEAKS.search(name) and name not in NESTED:
            raise InputError(
                f"{fields.where}: {name}: a nested object that isn't known for "
                f"model_type={kind!r}; expected fields that are known"
            )


NESTED = frozenset({"quantization_config", "compression_config"})
