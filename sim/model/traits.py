"""What an architecture adds to Llama's layer beyond what fields say.

Source: transformers, models/*/modeling_*.py. Types that are here have exact counts of parameters.
"""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Traits:
    """Biases, norms and gates of one layer."""

    gated: bool = True
    qkv_bias: bool = False
    out_bias: bool | None = False  # None: never, whatever attention_bias says
    mlp_bias: bool = False
    head_bias: bool = False
    norms: int = 2  # per layer
    norm_bias: bool = False  # LayerNorm instead of RMSNorm
    qk_norm: bool = False  # over a head's dimension
    wide_qk_norm: bool = False  # over all heads together
    sinks: bool = False  # a learned logit per head
    router_bias: bool = False  # one a routed expert
    query_gate: bool = False  # queries have a gate beside them
    shared_gate: bool = False  # the shared expert has a gate, one weight a channel
    shared_query: bool = False  # queries share a low-rank product (Step 3)
    one_kv_matrix: bool = False  # values may be keys (Gemma 4's attention_k_eq_v)


LAYER_NORM = Traits(gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True)
PHI = Traits(
    gated=False,
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
    norm_bias=True,
    head_bias=True,
    norms=1,
)
TRAITS = {
    "llama": Traits(),
    "mistral": Traits(),
    "ministral3": Traits(),
    "mixtral": Traits(),
    "phi3": Traits(),
    "qwen2": Traits(qkv_bias=True, out_bias=None),
    "qwen2_moe": Traits(qkv_bias=True, out_bias=None, shared_gate=True),
    "qwen3": Traits(qk_norm=True),
    "qwen3_moe": Traits(qk_norm=True),
    "qwen3_next": Traits(qk_norm=True, query_gate=True, shared_gate=True),
    "qwen3_5_text": Traits(qk_norm=True, query_gate=True),
    "qwen3_5_moe_text": Traits(qk_norm=True, query_gate=True, shared_gate=True),
    "gemma": Traits(),
    "gemma2": Traits(norms=4),
    "gemma3_text": Traits(norms=4, qk_norm=True),
    "olmo3": Traits(wide_qk_norm=True),
    "olmo2": Traits(wide_qk_norm=True),
    "deepseek_v2": Traits(),
    "deepseek_v3": Traits(router_bias=True),
    "deepseek_v32": Traits(router_bias=True),
    "kimi_k2": Traits(router_bias=True),
    "glm_moe_dsa": Traits(router_bias=True),
    "glm4_moe": Traits(qk_norm=True, router_bias=True, out_bias=None),
    "gpt_oss": Traits(qkv_bias=True, out_bias=True, mlp_bias=True, sinks=True, router_bias=True),
    "minimax_m2": Traits(wide_qk_norm=True, router_bias=True),
    "llama4_text": Traits(),
    "opt": LAYER_NORM,
    "gpt2": LAYER_NORM,
    "phi": PHI,
}
ALMOST = {
    # the nearest traits of types whose counts aren't exact
    "nemotron_h": Traits(gated=False, norms=1, router_bias=True),
    "nemotron": Traits(gated=False, norm_bias=True),
    "gemma4_text": Traits(norms=4, qk_norm=True, one_kv_matrix=True),
    "step3_text": Traits(shared_query=True),
    "cohere2": Traits(norms=1),
    "cohere": Traits(norms=1),
    "phimoe": Traits(qkv_bias=True, out_bias=True, norm_bias=True, head_bias=True),
    "gpt_neox": LAYER_NORM,
    "gpt_bigcode": LAYER_NORM,
    "starcoder2": LAYER_NORM,
    "gptj": Traits(gated=False, mlp_bias=True, norm_bias=True, head_bias=True, norms=1),
    "falcon": Traits(gated=False, norm_bias=True),
    "bloom": LAYER_NORM,
    "codegen": Traits(gated=False, mlp_bias=True, norm_bias=True, head_bias=True, norms=1),
    "persimmon": LAYER_NORM,
    "chatglm": Traits(qkv_bias=True, out_bias=None),
    "mamba2": Traits(norms=1),
    "minimax_text_01": Traits(),
    "whisper": LAYER_NORM,
    "apertus": Traits(gated=False, qk_norm=True),
    "arcee": Traits(gated=False),
    "minicpm3": Traits(),
    "hunyuan_v1_dense": Traits(qk_norm=True),
    "smollm3": Traits(),
    "seed_oss": Traits(qkv_bias=True, out_bias=None),
    "olmo": Traits(),
    "granite": Traits(),
    "granitemoe": Traits(),
    "glm": Traits(),
    "glm4": Traits(norms=4),
    "internlm2": Traits(),
    "exaone": Traits(),
    "kimi_linear": Traits(router_bias=True),
    "bamba": Traits(),
    "gemma3n_text": Traits(norms=4, qk_norm=True),
    # checked against what vLLM builds
    **dict.fromkeys(
        (
            "ernie4_5",
            "ernie4_5_moe",
            "exaone4",
            "falcon_h1",
            "granitemoehybrid",
            "jamba",
            "hunyuan_v1_moe",
            "mimo_v2_flash",
            "lfm2",
            "lfm2_moe",
        ),
        Traits(),
    ),
}


def traits_of(model_type: str) -> tuple[Traits, Fraction]:
    """The traits of a type, and by what share the parameters counted with them may be wrong."""
    if model_type in TRAITS:
        return TRAITS[model_type], Fraction(0)
    if model_type in ALMOST:
        return ALMOST[model_type], SLIGHT
    return Traits(), UNSEEN


SLIGHT = Fraction(3, 100)
"""Biases, norms and gates: the largest error found against the parameters that vLLM builds for
such configurations, rounded up."""
UNSEEN = Fraction(1, 4)
"""Nobody looked whether the MLP has a gate, which is a third of it."""
