"""config.json files: structure comes from fields, and what is wrong is named in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.model.geometry import Model
from sim.model.presets import find_model
from sim.run.engine_presets import find_engine
from workloads.errors import InputError

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "intermediate_size": 2816,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def load(folder: Path, **changes: object) -> Model:
    content = {key: value for key, value in {**LLAMA, **changes}.items() if value != "absent"}
    (folder / "config.json").write_text(json.dumps(content))
    return find_model(str(folder / "config.json"))


def kinds(model: Model) -> list[tuple[int, str, int | None]]:
    return [(group.layers, group.kind, group.window) for group in model.groups]


def test_kv_heads_default_to_heads(tmp_path: Path) -> None:
    assert load(tmp_path).groups[0].kv_heads == 16
    assert load(tmp_path, num_key_value_heads=None).groups[0].kv_heads == 16
    assert load(tmp_path, num_key_value_heads=4).groups[0].kv_heads == 4
    assert load(tmp_path, multi_query=True).groups[0].kv_heads == 1


def test_explicit_head_dim_wins(tmp_path: Path) -> None:
    assert load(tmp_path).groups[0].head_dim == 64
    assert load(tmp_path, head_dim=128).groups[0].head_dim == 128


def test_layer_types(tmp_path: Path) -> None:
    types = (["sliding_attention"] * 3 + ["full_attention"]) * 2
    assert kinds(load(tmp_path, layer_types=types, sliding_window=512)) == [
        (2, "full", None),
        (6, "window", 512),
    ]


def test_chunked_layers(tmp_path: Path) -> None:
    expected = [(2, "full", None), (6, "chunked", 256)]
    chunks = {"model_type": "llama4_text", "attention_chunk_size": 256, "head_dim": 64}
    types = (["chunked_attention"] * 3 + ["full_attention"]) * 2
    assert kinds(load(tmp_path, layer_types=types, **chunks)) == expected
    assert kinds(load(tmp_path, **chunks)) == expected
    rotary = [1, 1, 1, 0] * 2
    assert kinds(load(tmp_path, no_rope_layers=rotary, **chunks)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [(8, "window", 512)]),  # Mistral 7B v0.1: every layer
        ({"sliding_window_pattern": 4}, [(2, "full", None), (6, "window", 512)]),
        ({"use_sliding_window": False, "max_window_layers": 2}, [(8, "full", None)]),
        ({"max_window_layers": 2}, [(8, "full", None)]),  # Qwen's class leaves it off
        (
            {"use_sliding_window": True, "max_window_layers": 2},
            [(2, "full", None), (6, "window", 512)],
        ),
        ({"num_kv_shared_layers": 3}, [(5, "window", 512), (3, "shared", None)]),
    ],
)
def test_sliding_window_fields(
    tmp_path: Path, fields: dict[str, object], expected: list[tuple[int, str, int | None]]
) -> None:
    assert kinds(load(tmp_path, sliding_window=512, **fields)) == expected


def test_shared_layers_take_nothing(tmp_path: Path) -> None:
    model = load(tmp_path, num_kv_shared_layers=3)
    assert model.kv_bytes_per_token() == 2 * 5 * 16 * 64 * 2


def test_class_defaults_fill_what_a_file_omits(tmp_path: Path) -> None:
    """Gemma 3 files give neither pattern nor head_dim where they equal the class's."""
    model = load(tmp_path, model_type="gemma3_text", sliding_window=1024, num_attention_heads=8)
    assert kinds(model) == [(1, "full", None), (7, "window", 1024)]
    assert (model.groups[0].kv_heads, model.groups[0].head_dim) == (4, 256)


def test_nested_text_config(tmp_path: Path) -> None:
    outer = {"model_type": "llava", "text_config": LLAMA, "vision_config": {}, "dtype": "float32"}
    (tmp_path / "config.json").write_text(json.dumps(outer))
    model = find_model(str(tmp_path))
    assert model.name == tmp_path.name
    assert (model.layers, model.dtype_bytes) == (8, 4)
    assert model.notes == ("weights of the vision or audio tower are not counted",)


def test_latent_attention(tmp_path: Path) -> None:
    latent = {
        "model_type": "deepseek_v3",
        "kv_lora_rank": 256,
        "qk_rope_head_dim": 32,
        "qk_nope_head_dim": 64,
        "v_head_dim": 64,
    }
    model = load(tmp_path, **latent)
    assert model.kv_bytes_per_token() == 8 * (256 + 32) * 2
    assert model.formula() == "8 mla layers × (256 + 32) × 2 B = 4,608 B per token"


def test_an_index_beside_the_file_says_what_weights_take(tmp_path: Path) -> None:
    plain = load(tmp_path).weight_bytes()
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": plain + 1000}}))
    assert load(tmp_path).weight_bytes() == plain + 1000
    index.write_text("{}")
    with pytest.raises(InputError, match=r"index\.json: metadata\.total_size"):
        load(tmp_path)


def test_types_whose_weights_are_not_known_exactly_say_so(tmp_path: Path) -> None:
    model = load(tmp_path, model_type="granite")
    (note,) = model.notes
    assert note.startswith("weights are counted to within 3 %")
    least, most = model.weights.range_bytes()
    assert least < model.weight_bytes() < most


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": "absent"}, "num_hidden_layers is missing, expected a positive"),
        ({"hidden_size": "absent"}, "hidden_size is missing"),
        ({"intermediate_size": "absent"}, "intermediate_size is missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0, expected a positive integer"),
        ({"num_hidden_layers": True}, "num_hidden_layers=True, expected a positive integer"),
        ({"num_hidden_layers": "8"}, "num_hidden_layers='8', expected a positive integer"),
        ({"hidden_size": 1000}, "head_dim is missing and hidden_size=1000 is no multiple"),
        ({"num_key_value_heads": 3}, "num_key_value_heads=3, expected a divisor"),
        ({"layer_types": ["full_attention"]}, "layer_types: 1 entries, expected one for each of 8"),
        (
            {"layer_types": ["mamba"] * 8},
            "layer_types has layers of a recurrence, which model_type",
        ),
        ({"layer_types": ["rnn"] * 8}, r"layer_types\[0\]='rnn', expected one of"),
        ({"layer_types": ["sliding_attention"] * 8}, "sliding_window is missing"),
        ({"mamba_d_state": 16}, "mamba_d_state=16: not known for model_type='llama'"),
        ({"model_type": "novel"}, "model_type='novel' isn't known"),
        ({"model_type": "absent"}, "model_type is missing"),
        ({"num_kv_shared_layers": 8}, "num_kv_shared_layers=8, expected less than 8"),
        ({"dtype": "int3"}, "dtype='int3', expected one of"),
        ({"quantization_config": {"quant_method": "x"}}, "quant_method='x', expected one of"),
        ({"quantization_config": 4}, "quantization_config=4, expected an object"),
        ({"num_experts": 2, "num_experts_per_tok": 4}, "num_experts_per_tok=4, expected at most 2"),
    ],
)
def test_faults_name_file_and_field(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, **changes)
    assert str(caught.value).startswith(str(tmp_path / "config.json"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [("{", "not JSON"), ("[]", "expected a JSON object")])
def test_files_that_are_no_configuration(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=message):
        find_model(str(tmp_path))


def test_names() -> None:
    assert find_model("meta-llama/Llama-3.1-8B-Instruct") == find_model("llama-3.1-8b")
    assert find_model("llama-13b") == find_model("llama-2-13b")
    with pytest.raises(InputError, match=r"did you mean 'llama-2-7b'"):
        find_model("lama-2-7b")
    with pytest.raises(InputError, match="no such file"):
        find_model("nowhere/config.json")


@pytest.mark.parametrize(
    ("quantisation", "bits", "block"),
    [
        # AWQ and GPTQ: a 16-bit scale and a 4-bit zero point for each group of 128 weights
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 128 * 4 + 16 + 4, 128),
        ({"quant_method": "fp8"}, 8, 1),
        # DeepSeek-V3: a 32-bit scale for each tile of 128 × 128
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 128 * 128 * 8 + 32, 128 * 128),
    ],
)
def test_quantised_linear_layers_count_their_scales(
    tmp_path: Path, quantisation: dict[str, object], bits: int, block: int
) -> None:
    model = load(tmp_path, quantization_config=quantisation)
    attention, mlp = 8 * 2 * 1024 * 1024, 8 * 3 * 1024 * 2816  # q and o; k and v take the same
    linear = sum(-(-part * bits // (block * 8)) for part in (attention, attention, mlp))
    rest = 2 * 1000 * 1024 + (2 * 8 + 1) * 1024  # embedding, output projection, norms
    assert model.weight_bytes() == linear + 2 * rest


def test_float32_is_loaded_in_16_bits_by_vllm(tmp_path: Path) -> None:
    """vLLM config/model.py: `auto` takes FP16 for FP32 models; transformers takes them as are."""
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "torch_dtype": "float32"}))
    wide, cast = (find_model(str(tmp_path), casts) for casts in (False, True))
    assert (wide.dtype_bytes, cast.dtype_bytes) == (4, 2)
    assert wide.weight_bytes() == 2 * cast.weight_bytes()
    assert "16 bits" in cast.notes[-1]
    assert find_engine("vllm-0.32:block_size=32").casts
    assert not find_engine("default").casts


def test_rotary_dimensions(tmp_path: Path) -> None:
    """What rotates: `rotary_dim` of each head (MiniMax-Text-01), a share of it, or nothing."""
    assert load(tmp_path, rotary_dim=32).rotary_table_bytes() == 4096 * 32 * 2
    assert load(tmp_path, model_type="gpt_neox", rotary_pct=0.25).rotary_dim == 16
    assert load(tmp_path, model_type="jamba").rotary_dim == 0
    assert load(tmp_path, model_type="bloom").rotary_dim == 0
    assert load(tmp_path, position_embedding_type="nope").rotary_dim == 0


def test_gpt_oss_alternates_from_a_window(tmp_path: Path) -> None:
    """transformers GptOssConfig: layer_types left out is sliding, full, sliding, ..."""
    model = load(tmp_path, model_type="gpt_oss", sliding_window=128)
    assert kinds(model) == [(4, "full", None), (4, "window", 128)]


def test_experts_in_every_second_layer(tmp_path: Path) -> None:
    """DeepSeek: layers of a number that moe_layer_freq divides, from first_k_dense_replace on."""
    experts = {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "first_k_dense_replace": 1,
    }
    every, second = (load(tmp_path, **experts, moe_layer_freq=step) for step in (1, 2))
    assert every.weights.experts == 7 * 4 * 3 * 1024 * 64
    assert second.weights.experts == 3 * 4 * 3 * 1024 * 64  # layers 2, 4 and 6


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "falcon_h1", "lm_head_multiplier": 0.01, "mlp_expansion_factor": 8}
        | {"mamba_n_heads": 8, "mamba_d_ssm": 512, "mamba_d_state": 16, "mamba_d_conv": 4},
        {"model_type": "jamba", "mamba_inner_layernorms": True},
        {"model_type": "gemma2", "sliding_window": 64, "sliding_window_size": 64},
        {"model_type": "phi3", "full_attn_mod": 1},
        {"model_type": "starcoder2", "scale_attention_softmax_in_fp32": True},
        {"n_layer": 8, "num_layers": 8},
    ],
    ids=["falcon-h1", "jamba", "gemma-2", "phi-4-mini", "starcoder2", "two spellings that agree"],
)
def test_published_fields_that_change_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert load(tmp_path, **changes).layers == 8
