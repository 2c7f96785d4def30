"""Public models that were sized wrong once: bytes of weights and of KV, each worked out.

Sources: the models' config.json and hf_quant_config.json on huggingface.co; DeepSeek-V3.2-Exp and
FlashMLA for the sparse formats; vLLM 0.32 for states and windows.
"""

import json
from pathlib import Path

import pytest

from sim.hardware import find_device
from sim.memory.ledger import kv_budget
from sim.memory.vllm_blocks import cut_blocks
from sim.model.geometry import Model
from sim.model.hf_config import read_config
from sim.model.kv_formats import kv_format

CONFIGS = Path(__file__).parent / "configs"
GIB = 2**30


def model(name: str) -> Model:
    return read_config(CONFIGS / f"{name}.json")


def changed(folder: Path, name: str, **changes: object) -> Model:
    content = json.loads((CONFIGS / f"{name}.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **changes}))
    return read_config(folder)


def test_states_beside_kv() -> None:
    """A linear layer of Qwen3.5-27B: 3 × 10,240 convolution inputs of 2 B, 48 × 128² of 4 B."""
    qwen = model("qwen3.5-27b")
    assert qwen.kv_bytes_per_token() == 65_536
    assert qwen.state_bytes() == 48 * (3 * 10_240 * 2 + 48 * 128 * 128 * 4) == 153_944_064
    nano = model("nemotron-3-nano-30b-a3b")
    assert nano.kv_bytes_per_token() == 6144
    assert nano.state_bytes() == 49_082_368
    assert round(nano.kv_sequence_bytes(131_072) / 1e9, 3) == 0.854
    assert model("minimax-text-01").kv_bytes_per_token() == 40_960


@pytest.mark.parametrize(
    ("name", "dtype", "token_bytes"),
    [
        # a latent vector of (512 + 64) × 2 B or 656 B; an indexer's key of 128 + 4 B either way
        ("deepseek-v3.2", "bfloat16", 61 * (1152 + 132)),
        ("deepseek-v3.2", "fp8", 61 * (656 + 132)),
        ("deepseek-v3.2", "fp8_ds_mla", 48_068),
        ("glm-5.1", "bfloat16", 100_152),
        ("glm-5.1", "auto", 100_152),
    ],
)
def test_sparse_latent_attention(name: str, dtype: str, token_bytes: int) -> None:
    found = model(name)
    assert found.kv_bytes_per_token(kv_format(found, dtype)) == token_bytes
    assert found.kv_bytes_per_token(kv_format(found, dtype), 8) == token_bytes  # not divided


def test_a_format_of_weights_does_not_stop_the_kv_answer(tmp_path: Path) -> None:
    kimi = model("kimi-k2.5")  # compressed-tensors without a KV scheme
    assert kimi.kv_bytes_per_token(kv_format(kimi, "auto")) == 70_272
    nvfp4 = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
        "ignore": ["lm_head", "model.layers.*.self_attn*"],
    }
    minimax = changed(tmp_path, "minimax-m2", quantization_config=nvfp4)
    assert minimax.kv_bytes_per_token(kv_format(minimax, "auto")) == 126_976
    assert minimax.kv_bytes_per_token(kv_format(minimax, "bfloat16")) == 253_952
    # experts in 4 bits and a scale of 8 for 16; the rest in 16
    experts = 62 * 256 * 3 * 3072 * 1536
    assert minimax.weights.field_bytes("experts") == experts * 72 // (16 * 8)
    assert minimax.weights.field_bytes("attention") == minimax.weights.attention * 2


@pytest.mark.parametrize(
    "method",
    [
        {"quant_method": "fbgemm_fp8"},
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {"quant_method": "torchao", "quant_type": "int4wo"},
        {"quant_method": "quark"},
        {"quant_method": "auto-round", "bits": 4, "group_size": 128},
        {"quant_method": "gptq_marlin", "bits": 4, "group_size": 128},
    ],
)
def test_methods_that_were_refused(tmp_path: Path, method: dict[str, object]) -> None:
    """The KV answer is there, and weights are counted or given as a range."""
    plain = model("llama-3.1-8b")
    found = changed(tmp_path, "llama-3.1-8b", quantization_config=method)
    assert found.kv_bytes_per_token() == 131_072
    least, most = found.weights.range_bytes()
    if method["quant_method"] in {"torchao", "quark"}:
        # embedding, output projection and norms in 16 bits, the rest in 4 to 16
        assert most == plain.weight_bytes()
        assert least == most - (plain.weights.multiplied * 2) * 3 // 4
        assert "isn't known" in found.notes[0]
    else:
        assert least == most < plain.weight_bytes()


def test_mlx_and_auto_types(tmp_path: Path) -> None:
    """MLX: 64 weights of 4 bits with a scale and a bias of 16 each."""
    mlx = changed(tmp_path, "llama-3.1-8b", quantization={"group_size": 64, "bits": 4})
    assert mlx.weights.field_bytes("mlp") == mlx.weights.mlp * (64 * 4 + 32) // (64 * 8)
    assert changed(tmp_path, "llama-3.1-8b", torch_dtype="auto").dtype_bytes == 2


@pytest.mark.parametrize(
    ("dtype", "vector"),
    [
        ("fp8_e4m3", 128),
        ("fp8_e5m2", 128),
        ("nvfp4", 64 + 8),  # 4 bits an element, 8 for each 16 of them
        ("int8_per_token_head", 128 + 4),
        ("fp8_per_token_head", 128 + 4),
        ("int4_per_token_head", 64 + 4),
    ],
)
def test_names_of_kv_types(dtype: str, vector: int) -> None:
    llama = model("llama-3.1-8b")
    assert llama.kv_bytes_per_token(kv_format(llama, dtype)) == 2 * 32 * 8 * vector


LLAMA_70B = {
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "intermediate_size": 28_672,
}


def test_an_hf_quant_config_beside(tmp_path: Path) -> None:
    """Llama-3.1-70B-Instruct-FP8: linear layers in 8 bits, embeddings and output in 16."""
    beside = {
        "producer": {"name": "modelopt", "version": "0.15.1"},
        "quantization": {
            "quant_algo": "FP8",
            "kv_cache_quant_algo": "FP8",
            "exclude_modules": ["lm_head"],
        },
    }
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    found = changed(tmp_path, "llama-3.1-8b", **LLAMA_70B)
    linear = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28_672)
    rest = 2 * 128_256 * 8192 + (2 * 80 + 1) * 8192
    assert found.weight_bytes() == linear + 2 * rest
    assert round(found.weight_bytes() / GIB, 2) == 67.67
    assert kv_format(found, "auto").bits == 8
    assert kv_budget(found, find_device("h100"), max_num_seqs=64).kv_bytes > 0


def test_interleaved_experts() -> None:
    """Llama 4 Maverick: experts in every second layer, each with a shared one, dense MLPs of
    16,384 in the others. Meta gives 400 B parameters in all."""
    found = model("llama-4-maverick")
    experts = 24 * 128 * 3 * 5120 * 8192
    dense = 24 * 3 * 5120 * 16_384
    assert found.weights.experts == experts
    assert found.weights.mlp == dense
    assert found.weights.shared == 24 * 3 * 5120 * 8192
    assert round(found.parameters / 1e9, 1) == 400.7


def test_the_number_of_chosen_experts_has_many_names() -> None:
    """Gemma 4 26B-A4B says `top_k_experts`; 25 windowed layers of 8 × 256, 5 of 2 × 512."""
    found = model("gemma-4-26b-a4b")
    assert found.kv_bytes_per_token() == 25 * 2 * 8 * 256 * 2 + 5 * 2 * 2 * 512 * 2 == 225_280
    assert found.weights.active_experts * 128 == found.weights.experts * 8


def test_a_window_above_the_longest_context() -> None:
    """Phi-4-mini: a window of 262,144 over 131,072 positions keeps the positions."""
    assert model("phi-4-mini").kv_window_bytes() == 16 * GIB


def test_an_encoder_adds_bytes_a_request() -> None:
    """Whisper large v3: 1,500 encoder tokens, 32 decoder layers, 20 heads of 64, 16 bits."""
    found = model("whisper-large-v3")
    assert found.kv_bytes_per_token() == 163_840
    assert found.state_bytes() == 1500 * 163_840


def test_windowed_layers_also_hold_the_chunk_in_flight() -> None:
    """gpt-oss-20b at 131,072 tokens, 8,192 a step, blocks of 16: 8,192 of full layers, and
    ⌈(128 − 1 + 8,192) / 16⌉ + 1 of windowed ones."""
    ledger = kv_budget(model("gpt-oss-20b"), find_device("h100"))
    cut = cut_blocks(ledger, 16, 131_072)
    assert cut.request_blocks(131_072, 8192) == 8192 + 521


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    from workloads.errors import InputError

    chatglm = model("chatglm3-6b")  # multi_query_group_num: 2 of 32 heads
    assert chatglm.kv_bytes_per_token() == 2 * 28 * 2 * 128 * 2
    with pytest.raises(InputError, match="expected one for each of 32 layers"):
        changed(tmp_path, "llama-3.1-8b", layer_types="full_attention")
    with pytest.raises(InputError, match=r"full_attn_idxs=.*not known for model_type='llama'"):
        changed(tmp_path, "llama-3.1-8b", full_attn_idxs=[0, 4])


def test_pythias_mlp_has_no_gate(tmp_path: Path) -> None:
    """GPT-NeoX 6.9B: 6,857,302,016 parameters on its card; counted to within what is said."""
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "model_type": "gpt_neox",
                "hidden_size": 4096,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "intermediate_size": 16_384,
                "vocab_size": 50_432,
                "max_position_embeddings": 2048,
            }
        )
    )
    found = read_config(tmp_path)
    assert abs(found.parameters / 6_857_302_016 - 1) < float(found.weights.slack) <= 0.03


def test_an_index_that_is_smaller_wins_too(tmp_path: Path) -> None:
    plain = changed(tmp_path, "llama-3.1-8b")
    total = plain.weight_bytes() // 2 + 1
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}})
    )
    found = read_config(tmp_path)
    assert total <= found.weight_bytes() <= total + 12  # each class rounded up
    assert found.weights.range_bytes()[0] >= total
