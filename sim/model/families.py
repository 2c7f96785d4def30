"""Known model types: how each lays out its layers, and what its class means by what a file omits.

A config.json omits what equals its class's default, so the class (model_type) supplies it.
Source: transformers 4.57 and 5, models/*/configuration_*.py; vLLM 0.32, model_executor/models.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sim.model import layouts
from sim.model.config_fields import Fields, shown
from sim.model.kinds import (
    chunked,
    cross,
    full,
    gated_delta_net,
    kda,
    latent,
    lightning,
    mamba,
    mamba2,
    short_conv,
    sparse_latent,
    window,
)
from sim.model.states import StateGroup
from workloads.errors import InputError

StateReader = Callable[[Fields, int], StateGroup]


@dataclass(frozen=True)
class Family:
    """What a `model_type` adds to full attention and windows, which every type may have."""

    layout: Callable[[Fields], list[layouts.Kinds]] = layouts.by_fields
    state: StateReader | None = None  # what its recurrent layers are
    known: frozenset[str] = frozenset()  # fields on attention that it reads beside the usual ones
    names: Mapping[str, str] = field(default_factory=dict)  # its spelling of a usual field
    defaults: Mapping[str, object] = field(default_factory=dict)

    @property
    def fields(self) -> frozenset[str]:
        """All fields on attention that are understood."""
        usual = {"layer_types", "num_kv_shared_layers", *self.names.values()}
        return full.FIELDS | window.FIELDS | self.known | usual


PLAIN = Family()
TIED = Family(defaults={"tie_word_embeddings": True})
LATENT = Family(layout=layouts.latent, known=latent.FIELDS)
SPARSE = Family(
    layout=layouts.latent,
    known=sparse_latent.FIELDS,
    defaults={"index_head_dim": 128, "index_topk": 2048, "index_n_heads": 64},
)
CHUNKED = Family(known=chunked.FIELDS, defaults={"attention_chunk_size": 8192, "head_dim": 128})
DELTA = Family(
    layout=layouts.every_nth_full,
    state=gated_delta_net.read,
    known=gated_delta_net.FIELDS,
    defaults={
        "head_dim": 256,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
    },
)
MAMBA_2 = frozenset(mamba2.FIELDS)


def _gemma(pattern: int, **defaults: object) -> Family:
    return Family(
        known=frozenset({"sliding_window_size"}),  # Gemma 2 writes its window twice
        defaults={
            "head_dim": 256,
            "sliding_window_pattern": pattern,
            "tie_word_embeddings": True,
            **defaults,
        },
    )


def _last_full(fields: Fields) -> list[layouts.Kinds]:
    """Gemma 4: the last layer sees everything, whatever the pattern says."""
    kinds = layouts.by_fields(fields)
    return [*kinds[:-1], ("full",)]


FAMILIES: dict[str, Family] = {
    # alike in what attention keeps: full attention, or the windows that fields describe
    **dict.fromkeys(
        (
            "llama", "mistral", "mixtral", "ministral", "ministral3", "qwen2", "qwen2_moe", "qwen3",
            "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text",
            "qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_omni_moe_text", "phimoe", "cohere",
            "olmo", "olmo2", "olmoe", "granite", "granitemoe", "granitemoeshared", "glm", "glm4",
            "glm4_moe", "glm4v_text", "glm4v_moe_text", "stablelm",
            "exaone", "exaone_moe", "internlm2", "internlm3", "arcee", "apertus", "seed_oss",
            "dots1", "solar_open", "helium",
            "nemotron", "bitnet", "persimmon",
            "gpt_neox", "gptj",
            "codegen",  "flex_olmo", "bailing_moe", "aquila", "yi", "xverse", "orion",
        ),
        PLAIN,
    ),
    **dict.fromkeys(
        ("opt", "gpt2", "cohere", "starcoder2", "ernie4_5", "ernie4_5_moe", "bloom"), TIED
    ),
    "phi3": Family(known=frozenset({"full_attn_mod"})),
    "gpt_oss": Family(layout=layouts.windowed, defaults={"sliding_window_pattern": 2}),
    "smollm3": Family(
        # layers without rotary positions see everything, too
        known=frozenset({"no_rope_layers", "no_rope_layer_interval"}),
        defaults={"tie_word_embeddings": True},
    ),
    "gpt_bigcode": Family(defaults={"multi_query": True, "tie_word_embeddings": True}),
    "falcon": Family(
        defaults={
            "multi_query": True,
            "tie_word_embeddings": True,
            "max_position_embeddings": 2048,
        }
    ),
    "phi": Family(defaults={"partial_rotary_factor": 0.5}),
    "gemma": Family(defaults={"head_dim": 256, "tie_word_embeddings": True}),
    "gemma2": _gemma(2, sliding_window=4096),
    "vaultgemma": _gemma(2, sliding_window=4096),
    "gemma3_text": _gemma(
        6,
        num_attention_heads=8,
        num_key_value_heads=4,
        sliding_window=4096,
        vocab_size=262208,
        max_position_embeddings=131072,
    ),
    "gemma3n_text": _gemma(
        5, num_key_value_heads=2, sliding_window=512, num_kv_shared_layers=15
    ),
    "gemma4_text": Family(
        layout=_last_full,
        known=frozenset({"attention_k_eq_v"}),
        defaults={
            "head_dim": 256,
            "global_head_dim": 512,
            "sliding_window": 512,
            "sliding_window_pattern": 6,
            "tie_word_embeddings": True,
        },
    ),
    "cohere2": Family(defaults={"sliding_window_pattern": 4, "tie_word_embeddings": True}),
    "olmo3": Family(defaults={"sliding_window": 4096, "sliding_window_pattern": 4}),
    "exaone4": Family(layout=layouts.letters),
    "cwm": Family(layout=layouts.first_of_four_full, defaults={"sliding_window": 8192}),
    "afmoe": Family(
        known=frozenset({"global_attn_every_n_layers"}),
        names={"sliding_window_pattern": "global_attn_every_n_layers"},
        defaults={"sliding_window": 1024, "head_dim": 128, "sliding_window_pattern": 4},
    ),
    "mimo": PLAIN,
    "mimo_v2_flash": Family(
        layout=layouts.window_marks,
        # its chunk size is the window's, and kernels' blocks don't change what is kept
        known=frozenset(
            {"hybrid_layer_pattern", "sliding_window_size", "attention_chunk_size"}
            | {"hybrid_block_size"}
        ),
    ),
    "llama4_text": CHUNKED,
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "mistral4"), LATENT
    ),
    "minicpm3": Family(
        layout=layouts.latent, known=latent.FIELDS, defaults={"tie_word_embeddings": True}
    ),
    "deepseek_v32": SPARSE,
    "glm_moe_dsa": Family(
        layout=layouts.latent,
        known=sparse_latent.FIELDS,
        defaults={**SPARSE.defaults, "index_n_heads": 32},
    ),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), DELTA),
    "olmo_hybrid": Family(
        layout=layouts.every_nth_full, state=gated_delta_net.read, known=gated_delta_net.FIELDS,
        defaults={"linear_conv_kernel_dim": 4},
    ),
    "kimi_linear": Family(
        layout=layouts.linear_attn_config, state=kda.read, known=latent.FIELDS | kda.FIELDS
    ),
    **dict.fromkeys(
        ("minimax", "minimax_text_01"),
        Family(layout=layouts.ones_and_zeros, state=lightning.read, known=lightning.FIELDS),
    ),
    "minimax_m2": Family(layout=layouts.ones_and_zeros, known=lightning.FIELDS),
    "jamba": Family(
        layout=layouts.period_and_offset,
        state=mamba.read,
        known=mamba.FIELDS | {"attn_layer_period", "attn_layer_offset"},
        defaults={
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
        },
    ),
    "bamba": Family(
        layout=layouts.chosen_layers,
        state=mamba2.read,
        known=MAMBA_2 | {"attn_layer_indices"},
        defaults={"mamba_d_conv": 4, "mamba_expand": 2},
    ),
    "granitemoehybrid": Family(
        state=mamba2.read, known=MAMBA_2, defaults={"mamba_d_conv": 4, "mamba_expand": 2}
    ),
    "falcon_h1": Family(layout=layouts.both, state=mamba2.read, known=MAMBA_2),
    "nemotron_h": Family(
        layout=layouts.override_pattern,
        state=mamba2.read,
        known=MAMBA_2 | {"hybrid_override_pattern"},
        names={
            "mamba_n_heads": "mamba_num_heads",
            "mamba_d_head": "mamba_head_dim",
            "mamba_d_state": "ssm_state_size",
            "mamba_n_groups": "n_groups",
            "mamba_d_conv": "conv_kernel",
            "mamba_expand": "expand",
        },
        defaults={"mamba_ssm_cache_dtype": "float32", "head_dim": 128, "mamba_d_conv": 4},
    ),
    "mamba2": Family(
        layout=layouts.states_alone,
        state=mamba2.read,
        known=MAMBA_2,
        names={
            "mamba_n_heads": "num_heads",
            "mamba_d_head": "head_dim",
            "mamba_d_state": "state_size",
            "mamba_n_groups": "n_groups",
            "mamba_d_conv": "conv_kernel",
            "mamba_expand": "expand",
        },
        defaults={"mamba_d_conv": 4, "mamba_expand": 2, "mamba_d_state": 128, "mamba_n_groups": 8},
    ),
    **dict.fromkeys(
        ("lfm2", "lfm2_moe"),
        Family(
            layout=layouts.numbered_full,
            state=short_conv.read,
            known=short_conv.FIELDS,
            defaults={"conv_L_cache": 3, "tie_word_embeddings": True},
        ),
    ),
    **dict.fromkeys(
        ("hunyuan_v1_dense", "hunyuan_v1_moe"), Family(known=frozenset({"attention_head_dim"}))
    ),
    "step3_text": Family(
        known=frozenset({"num_attention_groups", "share_q_dim"}),
        names={"num_key_value_heads": "num_attention_groups"},
    ),
    "chatglm": Family(
        known=frozenset({"multi_query_attention", "multi_query_group_num", "kv_channels"}),
        names={
            "num_key_value_heads": "multi_query_group_num",
            "head_dim": "kv_channels",
            "vocab_size": "padded_vocab_size",
            "intermediate_size": "ffn_hidden_size",
        },
    ),
    **dict.fromkeys(
        ("t5", "mt5"),
        Family(
            layout=layouts.decoder_of_two,
            known=frozenset(
                {
                    "d_kv", "num_layers", "num_decoder_layers", "is_encoder_decoder",
                    "relative_attention_num_buckets", "relative_attention_max_distance",
                }
            ),
            names={
                "num_hidden_layers": "num_decoder_layers",
                "encoder_layers": "num_layers",
                "num_attention_heads": "num_heads",
                "head_dim": "d_kv",
                "intermediate_size": "d_ff",
                "encoder_ffn_dim": "d_ff",
                "max_source_positions": "n_positions",
                "max_position_embeddings": "n_positions",
            },
            defaults={"tie_word_embeddings": True},
        ),
    ),
    "whisper": Family(
        layout=layouts.decoder_of_two,
        known=cross.FIELDS | {"encoder_layers", "encoder_attention_heads", "is_encoder_decoder"},
        names={
            "num_hidden_layers": "decoder_layers",
            "num_attention_heads": "decoder_attention_heads",
            "intermediate_size": "decoder_ffn_dim",
            "max_position_embeddings": "max_target_positions",
        },
        defaults={"tie_word_embeddings": True},
    ),
}  # fmt: skip

TEXT_OF = {
    # a wrapper whose nested text configuration may leave its own type out
    "llava": "llama",
    "llava_next": "llama",
    "mistral3": "mistral",
    "pixtral": "mistral",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "kimi_k25": "kimi_k2",
}


def find_family(fields: Fields) -> tuple[str, Family]:
    """The type and family of a text configuration.

    Raises InputError for one that isn't known: its attention may be unlike all others.
    """
    kind = fields.string("model_type", "")
    if not kind:
        raise InputError(
            f"{fields.where}: model_type is missing, expected the type whose attention it has"
        )
    if kind not in FAMILIES:
        from difflib import get_close_matches  # late: few names are unknown

        close = get_close_matches(kind, FAMILIES, n=1, cutoff=0.75)
        hint = f"did you mean {close[0]!r}?" if close else "expected a known one, such as 'llama'"
        raise InputError(
            f"{fields.where}: model_type={shown(kind)} isn't known, so neither is what its "
            f"attention keeps; {hint}"
        )
    return kind, FAMILIES[kind]
