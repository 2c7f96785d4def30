"""Configurations made to break a reader: one line each that names the file, and exit code 2."""

import json
from pathlib import Path

import pytest

from sim import cli

PLAIN: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 2816,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}
LATENT = {
    "model_type": "deepseek_v3", "kv_lora_rank": 256, "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 64, "v_head_dim": 64, "q_lora_rank": None,
}  # fmt: skip
NANO = {
    "model_type": "nemotron_h", "hybrid_override_pattern": "M*M*M*M-", "mamba_num_heads": 8,
    "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4, "head_dim": 64,
}  # fmt: skip
KIMI = {**LATENT, "model_type": "kimi_linear"}
LINEAR = {
    "head_dim": 64, "num_heads": 4, "short_conv_kernel_size": 4, "full_attn_layers": [4, 8],
    "kda_layers": [1, 2, 3, 5, 6, 7],
}  # fmt: skip
PACKED = {"quant_method": "compressed-tensors"}

HOSTILE: list[tuple[dict[str, object], str]] = [
    ({"num_hidden_layers": 0}, "num_hidden_layers=0"),
    ({"num_hidden_layers": -3}, "num_hidden_layers=-3"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers=1000000000, expected at most"),
    ({"num_hidden_layers": 8.0}, "num_hidden_layers=8.0"),
    ({"num_hidden_layers": [8]}, "num_hidden_layers=[8]"),
    ({"num_hidden_layers": {"n": 8}}, "num_hidden_layers={'n': 8}"),
    ({"hidden_size": 10**30}, "hidden_size="),
    ({"hidden_size": "1024\n2048"}, "hidden_size='1024\\n2048'"),
    ({"hidden_size": True}, "hidden_size=True"),
    ({"num_attention_heads": None}, "num_attention_heads is missing"),
    ({"num_attention_heads": 0}, "num_attention_heads=0"),
    ({"num_key_value_heads": 5}, "num_key_value_heads=5, expected a divisor"),
    ({"num_key_value_heads": 32}, "num_key_value_heads=32, expected a divisor"),
    ({"num_key_value_heads": "4"}, "num_key_value_heads='4'"),
    ({"head_dim": -64}, "head_dim=-64"),
    ({"vocab_size": None}, "vocab_size is missing"),
    ({"vocab_size": 1.5}, "vocab_size=1.5"),
    ({"max_position_embeddings": 0}, "max_position_embeddings=0"),
    ({"max_position_embeddings": 10**15}, "max_position_embeddings="),
    ({"intermediate_size": [1, 2]}, "intermediate_size: 2 entries"),
    ({"intermediate_size": ["a"] * 8}, "intermediate_size has 'a'"),
    ({"model_type": None}, "model_type is missing"),
    ({"model_type": 7}, "model_type=7, expected a string"),
    ({"model_type": "lama"}, "did you mean 'llama'?"),
    ({"model_type": "x" * 5000}, "isn't known"),
    ({"model_type": "gpt\nneo"}, "model_type='gpt\\nneo'"),
    ({"layer_types": "full_attention"}, "layer_types: 'full_attention', expected one for each"),
    ({"layer_types": [None] * 8}, "layer_types[0]=None"),
    ({"layer_types": [["full_attention"]] * 8}, "layer_types[0]=['full_attention']"),
    ({"layer_types": ["linear_attention"] * 8}, "layer_types has layers of a recurrence"),
    ({"layer_types": ["chunked_attention"] * 8}, "attention_chunk_size is missing"),
    ({"sliding_window": -1}, "sliding_window=-1"),
    ({"sliding_window": "all"}, "sliding_window='all'"),
    ({"sliding_window": 64, "sliding_window_pattern": 0}, "sliding_window_pattern=0"),
    ({"sliding_window": 64, "use_sliding_window": 1}, "use_sliding_window=1, expected true or"),
    ({"num_kv_shared_layers": 9}, "num_kv_shared_layers=9, expected less than 8"),
    ({"attention_sink_tokens": 4}, "attention_sink_tokens=4: not known"),
    ({"kv_lora_rank": 512}, "kv_lora_rank=512: not known for model_type='llama'"),
    ({"hyper_attention": {"deep": {"er": 1}}}, "hyper_attention: a nested object"),
    ({**LATENT, "kv_lora_rank": 0}, "kv_lora_rank=0"),
    ({**LATENT, "layer_types": ["sliding_attention"] * 8}, "expected full attention beside"),
    ({**NANO, "hybrid_override_pattern": "M*X*M*M-"}, "hybrid_override_pattern has 'X'"),
    ({**NANO, "hybrid_override_pattern": "M*"}, "hybrid_override_pattern has 2 letters"),
    ({**NANO, "mamba_num_heads": 0}, "mamba_num_heads=0"),
    ({**KIMI}, "linear_attn_config=missing, expected an object"),
    ({**KIMI, "linear_attn_config": {**LINEAR, "kda_layers": [0]}}, "kda_layers has 0"),
    ({**KIMI, "linear_attn_config": {**LINEAR, "kda_layers": [1]}}, "expected each of 8 layers"),
    ({"model_type": "minimax", "attn_type_list": [2] * 8}, "attn_type_list has 2"),
    ({"model_type": "lfm2", "full_attn_idxs": [99]}, "full_attn_idxs has 99"),
    ({"model_type": "bamba", "attn_layer_indices": "x"}, "attn_layer_indices='x'"),
    ({"num_experts": 4}, "num_experts_per_tok is missing"),
    ({"num_experts": 4, "num_experts_per_tok": 5}, "num_experts_per_tok=5, expected at most 4"),
    ({"torch_dtype": "int128"}, "torch_dtype='int128'"),
    ({"quantization_config": "fp8"}, "quantization_config='fp8', expected an object"),
    ({"quantization_config": {}}, "quant_method is missing"),
    ({"quantization_config": {"quant_method": ["fp8"]}}, "quant_method=['fp8']"),
    ({"quantization_config": {"quant_method": "awq", "bits": 0}}, "bits=0"),
    ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 1]}}, "0, expected"),
    ({"quantization_config": {"quant_method": "fp8", "ignored_layers": 3}}, "ignored_layers"),
    ({"quantization_config": {**PACKED, "config_groups": {}}}, "config_groups is missing"),
    ({"quantization_config": {**PACKED, "config_groups": {"a": {"weights": 4}}}}, "weights=4"),
    ({"model_type": "qwen3_next", "full_attention_interval": 0}, "full_attention_interval=0"),
    ({"model_type": "qwen2_moe", "decoder_sparse_step": 0}, "decoder_sparse_step=0, expected a"),
    ({**NANO, "n_groups": 0}, "n_groups=0, expected a positive"),
    ({"num_key_value_heads": 0}, "num_key_value_heads=0, expected a positive"),
    ({"model_type": "lfm2", "full_attn_idxs": [0], "block_multiple_of": 0}, "block_multiple_of=0"),
    ({**LATENT, "kv_lora_rank": None}, "kv_lora_rank is missing"),
    ({**LATENT, "first_k_dense_replace": 9}, "first_k_dense_replace=9, expected at most 8 layers"),
    ({**LATENT, "moe_layer_freq": 0}, "moe_layer_freq=0"),
    ({"interleave_moe_layer_step": 0}, "interleave_moe_layer_step=0"),
    ({"mlp_only_layers": "none"}, "mlp_only_layers='none', expected a list"),
    ({"model_type": "gpt_oss"}, "sliding_window is missing"),
    ({"model_type": "jamba", "attn_layer_offset": 8}, "attn_layer_offset=8, expected less than"),
    ({"model_type": "qwen3_next", "linear_num_value_heads": 7}, "linear_num_value_heads=7"),
    ({"model_type": "phi3", "full_attn_mod": 2}, "full_attn_mod=2, expected 1"),
    ({"model_type": "gemma2", "sliding_window_size": 5}, "sliding_window_size=5 is not read"),
    ({"num_kv_heads": 2}, "num_kv_heads=2 is not read beside num_key_value_heads=4"),
    ({"n_layer": 16}, "n_layer=16 is not read beside num_hidden_layers=8"),
    ({"rope_scaling": "yarn"}, "rope_scaling='yarn', expected an object"),
    ({"rotary_dim": 65}, "rotary_dim=65, expected at most head_dim=64"),
    ({"quantization_config": {"quant_method": "awq", "bits": 99}}, "bits=99, expected at most 16"),
    (
        {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 0}},
        "group_size=0, expected a positive",
    ),
    ({"text_config": [1]}, "text_config=[1], expected an object"),
    ({"partial_rotary_factor": 7}, "partial_rotary_factor=7, expected at most 1"),
    ({"text_config": {"model_type": "novel"}}, "text_config: model_type='novel'"),
    ({"text_config": {**PLAIN, "hidden_size": 0}}, "text_config: hidden_size=0"),
]


def size(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that `kvtwin size` refuses a model with."""
    arguments = ["kvtwin", "size", "--model", str(path), "--gpu", "h100", "--context", "100"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith(f"kvtwin: error: {path}")
    assert len(line) < 600
    return line


@pytest.mark.parametrize(("changes", "named"), HOSTILE, ids=[named for _, named in HOSTILE])
def test_one_line(
    changes: dict[str, object],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**PLAIN, **changes}))
    assert named in size(path, monkeypatch, capsys)


@pytest.mark.parametrize(
    "text",
    ["", "null", "[1]", "{", '{"a": NaN', "\x00", "[" * 100_000, '"text"', "{} {}"],
    ids=range(9),
)
def test_files_that_are_no_configuration(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    size(path, monkeypatch, capsys)


def test_files_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PLAIN))
    beside = tmp_path / "hf_quant_config.json"
    beside.write_text("[]")
    monkeypatch.setattr(
        "sys.argv", ["kvtwin", "size", "--model", str(path), "--gpu", "h100", "--context", "100"]
    )
    for content, named in (("[]", "hf_quant_config.json"), ('{"quantization": 3}', "=3, expected")):
        beside.write_text(content)
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert caught.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert named in line
