"""Storage in few bits is one thing, said by `--kv-cache-dtype` or by a policy's modifier."""

from pathlib import Path
from typing import Any

import pytest

from sim.hardware import find_device
from sim.memory.ledger import kv_budget
from sim.model.hf_config import read_config
from sim.model.kv_formats import kv_format, limitation
from sim.model.presets import find_model, model_names
from sim.policy.registry import parse_policy
from sim.policy.spec import parts_of
from sim.policy.storage import Quantised
from sim.run.folder import write_run
from sim.run.simulation import execute, prepare
from tests.made_up import write_model

PAIRS = {
    "fp8": "paging+fp8",
    "int8": "paging+int8",
    "int8_fp16": "paging+int8:scale=fp16",
    "int4_per_token_head": "paging+int4:group=0,scale=fp32,zero=none",
    "nvfp4": "paging+int4:group=16,scale=fp8,zero=none",
}


@pytest.mark.parametrize("name", [name for name in model_names() if not find_model(name).kv_scheme])
@pytest.mark.parametrize("tp", [1, 4])
def test_both_give_the_same_pool(name: str, tp: int) -> None:
    """Every shipped model's tokens take as many bytes, as many of them side data, by group."""
    model, device = find_model(name), find_device("custom:memory=8192GiB", memory_alone=True)
    if model.num_heads % tp:
        pytest.skip(f"{model.num_heads} heads")
    plain = kv_budget(model, device, tp=tp, kv_cache_memory_bytes=2**36).pool(4096)
    for dtype, spec in PAIRS.items():
        parts = parts_of(parse_policy(spec))
        storage = next(part for part in parts if isinstance(part, Quantised))
        option = kv_budget(model, device, tp=tp, kv_cache_memory_bytes=2**36, kv_dtype=dtype)
        assert storage.apply(plain) == option.pool(4096), dtype


@pytest.mark.parametrize(("dtype", "spec"), PAIRS.items())
def test_both_say_what_answers_lose(dtype: str, spec: str, tmp_path: Path) -> None:
    """And both write it into run.json, where reports set such runs apart."""
    bits = 8 if "8" in dtype else 4
    given: dict[str, Any] = {"model": "llama-2-7b", "gpu": "a100-40gb", "first": 3}
    option = prepare("azure-2023-conv", kv_cache_dtype=dtype, **given)
    modifier = prepare("azure-2023-conv", policy=spec, **given)
    assert option.limitation == modifier.limitation == f"rounds keys and values to {bits} bits"
    info = write_run(execute(option), tmp_path, "test")
    assert info["policy"]["limitation"] == option.limitation
    assert prepare("azure-2023-conv", **given).limitation is None
    both = prepare(
        "azure-2023-conv", policy="sliding_window:window=64", kv_cache_dtype=dtype, **given
    )
    assert both.limitation is not None
    assert both.limitation.startswith(f"rounds keys and values to {bits} bits; forgets")


def test_a_calibrated_checkpoint_loses_nothing(tmp_path: Path) -> None:
    """One that says its KV cache is in 8 bits; 4 bits are fewer than it was made for."""
    scheme = {"num_bits": 8, "type": "float"}
    path = write_model(
        tmp_path / "calibrated",
        quantization_config={"quant_method": "compressed-tensors", "kv_cache_scheme": scheme,
                             "config_groups": {"all": {"targets": ["Linear"], "weights": scheme}}},
    )  # fmt: skip
    model = read_config(path)
    assert limitation(model, kv_format(model, "auto")) is None
    assert limitation(model, kv_format(model, "fp8_e4m3")) is None
    assert limitation(model, kv_format(model, "nvfp4")) == "rounds keys and values to 4 bits"
