"""KV bytes, parameter counts and arithmetic of the presets against published numbers."""

import pytest

from sim.model.layers import KvFormat, LayerGroup
from sim.model.presets import find_model

GIB = 2**30
FP16 = KvFormat("fp16", 16)


@pytest.mark.parametrize(
    ("name", "token_bytes"),
    [
        # 2 × layers × KV heads × head_dim × 2 B, by hand from the published configurations
        ("llama-2-7b", 524_288),
        ("llama-2-13b", 819_200),
        ("llama-2-70b", 327_680),
        ("llama-3-8b", 131_072),
        ("llama-3.1-8b", 131_072),
        ("mistral-7b", 131_072),
        ("llama-3-70b", 327_680),
        ("opt-13b", 819_200),
        ("qwen2.5-32b", 262_144),
        ("qwen3-4b", 147_456),  # head_dim 128 is explicit; hidden/heads would give 80
        ("pixtral-12b", 2 * 40 * 8 * 128 * 2),
        ("phi-2", 2 * 32 * 32 * 80 * 2),
        ("qwen3-coder-480b", 2 * 62 * 8 * 128 * 2),
        ("deepseek-v3", 61 * (512 + 64) * 2),
    ],
)
def test_bytes_per_token(name: str, token_bytes: int) -> None:
    model = find_model(name)
    assert model.kv_bytes_per_token() == token_bytes
    assert model.kv_growth_bytes() == token_bytes
    assert model.kv_window_bytes() == 0
    assert f"= {token_bytes:,} B per token" in model.formula()


@pytest.mark.parametrize(
    ("name", "growth", "windows_mib", "uniform"),
    [
        ("gemma-3-27b", 81_920, 416, 507_904),
        ("gpt-oss-120b", 36_864, 4.5, 73_728),
        ("gpt-oss-20b", 24_576, 3, 49_152),
    ],
)
def test_affine_footprint_of_windowed_models(
    name: str, growth: int, windows_mib: float, uniform: int
) -> None:
    model = find_model(name)
    assert model.kv_growth_bytes() == growth
    assert model.kv_window_bytes() == windows_mib * 2**20
    assert model.kv_bytes_per_token() == uniform
    assert model.kv_sequence_bytes(100_000) == growth * 100_000 + windows_mib * 2**20
    assert model.kv_sequence_bytes(7) == uniform * 7  # no window is full yet


def test_llama_7b_takes_1_gib_at_2048_tokens_and_4_gib_at_8192() -> None:
    model = find_model("llama-7b")
    assert 2 * 32 * 2048 * 32 * 128 * 2 == 1_073_741_824
    assert model.kv_sequence_bytes(2048) == 1_073_741_824 == GIB
    assert model.kv_sequence_bytes(8192) == 4 * GIB
    assert model.formula() == "2 × 32 layers × 32 heads × 128 × 2 B = 524,288 B per token"


def test_llama_13b_conversation_of_8192_tokens() -> None:
    model = find_model("llama-13b")
    assert model.kv_bytes_per_token() == 819_200
    assert model.kv_sequence_bytes(8192) == 6_710_886_400 == 6_400 * 2**20


@pytest.mark.parametrize(
    ("windowed", "full", "window", "tokens", "waste"),
    [(16, 16, 4096, 8192, 0.25), (3, 1, 32_768, 131_072, 0.5625)],
)
def test_uniform_pages_waste(
    windowed: int, full: int, window: int, tokens: int, waste: float
) -> None:
    groups = [
        LayerGroup(full, "full", 8, 128, 128),
        LayerGroup(windowed, "window", 8, 128, 128, window),
    ]
    reserved = sum(g.token_bytes(FP16) * tokens for g in groups)
    needed = sum(g.token_bytes(FP16) * g.kept(tokens) for g in groups)
    assert 1 - needed / reserved == waste


def test_more_gpus_than_kv_heads_copy_them() -> None:
    model = find_model("llama-3-8b")  # 8 KV heads
    assert model.kv_bytes_per_token(FP16, 8) * 8 == model.kv_bytes_per_token()
    assert model.kv_bytes_per_token(FP16, 16) * 16 == 2 * model.kv_bytes_per_token()


def test_a_latent_vector_is_not_divided_over_gpus() -> None:
    model = find_model("deepseek-v3")
    assert model.kv_bytes_per_token(FP16, 8) == 70_272


def test_int8_is_not_half() -> None:
    int8 = KvFormat("int8", 8, scale_bits=32)
    # 2 × 32 × 8 vectors of 128 bytes and one scale of 4
    assert find_model("llama-3-8b").kv_bytes_per_token(int8) == 512 * (128 + 4)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # safetensors totals that Hugging Face shows for each checkpoint
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-13b", 13_015_864_320),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("mistral-7b", 7_248_023_552),
        ("opt-13b", 12_853_473_280),
        ("phi-2", 2_779_683_840),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-32b", 32_763_876_352),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-32b", 32_762_123_264),
        ("qwen3-coder-480b", 480_154_875_392),
        ("gemma-3-27b", 27_432_406_640),
        ("deepseek-v3", 671_026_419_200),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-14b", 14_768_307_200),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("llama-3.3-70b", 70_553_706_496),
    ],
)
def test_parameters(name: str, parameters: int) -> None:
    assert find_model(name).parameters == parameters


@pytest.mark.parametrize(
    ("name", "billions", "checkpoint_gib"),
    [("gpt-oss-20b", 20.91, 12.8), ("gpt-oss-120b", 116.83, 60.8)],
)
def test_mxfp4_checkpoints(name: str, billions: float, checkpoint_gib: float) -> None:
    """OpenAI, gpt-oss model card (arXiv:2508.10925), table 1."""
    model = find_model(name)
    assert round(model.parameters / 1e9, 2) == billions
    assert round(model.weight_bytes() / GIB, 1) == checkpoint_gib


def test_matmuls_and_attention_of_llama_2_7b() -> None:
    model = find_model("llama-2-7b")
    assert model.matmul_parameters == 32 * (4 * 4096**2 + 3 * 4096 * 11_008)
    assert model.flops_per_token() == 2 * model.matmul_parameters
    assert model.lm_head_parameters == 32_000 * 4096
    assert model.pair_flops(model.groups[0]) == 4 * 32 * 128 * 32


def test_weights_on_each_gpu() -> None:
    model = find_model("llama-3.1-8b")
    norms = (2 * 32 + 1) * 4096  # on every GPU
    assert model.weight_bytes(2) == 2 * ((8_030_261_248 - norms) // 2 + norms)
    kv = 32 * 2 * 4096 * 1024  # from 8 GPUs on each has one KV head
    assert model.weight_bytes(16) == 2 * ((8_030_261_248 - norms - kv) // 16 + kv // 8 + norms)


def test_a_step_reads_neither_embedding_rows_nor_idle_experts() -> None:
    dense = find_model("llama-3.1-8b")
    assert dense.weight_read_bytes(64) == 2 * (8_030_261_248 - 128_256 * 4096)
    tied = find_model("qwen3-4b")
    assert tied.weight_read_bytes() == tied.weight_bytes()
    moe = find_model("qwen3-coder-480b")
    experts = 62 * 160 * 3 * 6144 * 2560
    others = 2 * (480_154_875_392 - experts - 151_936 * 6144)
    assert moe.weight_read_bytes(1) == others + 2 * experts * 8 // 160
    assert moe.weight_read_bytes(100_000) == others + 2 * experts
