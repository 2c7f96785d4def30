"""`kvtwin size --engine vllm-0.32` prints what vLLM 0.32 makes of the same memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.commands.size import size
from sim.run.options import EngineOptions

ROOT = Path(__file__).parents[2]
RECORDED: dict[str, Any] = json.loads(
    (ROOT / "conformance/sizing/vllm-0.32.0.json").read_text(encoding="utf-8")
)
MODELS = [(name, "bfloat16") for name in RECORDED["models"]]
MODELS += [(name, "fp8") for name in RECORDED["fp8"]]


def test_the_geometries_that_matter_are_there() -> None:
    """Dense, GQA, MLA, windowed, hybrid, several windows, own head sizes, and 8 bits."""
    assert {
        "opt-13b", "llama-3.1-8b", "deepseek-v3", "mistral-7b-v0.1", "gemma-3-27b", "gpt-oss-20b",
        "mimo-v2-flash", "qwen3-8b", "gemma-4-26b-a4b", "jamba-1.5-mini", "qwen3-next-80b-a3b",
        "mamba2-2.7b",
    } <= set(RECORDED["models"])  # fmt: skip
    assert len(RECORDED["fp8"]) == 4


@pytest.mark.parametrize(("name", "kv"), MODELS)
def test_blocks_tokens_and_concurrency(
    name: str, kv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The CPU build plans no step ahead, and takes blocks of 16 tokens under latent attention."""
    theirs = RECORDED["models" if kv == "bfloat16" else "fp8"][name]
    block = 16 if theirs["block_size"] == 16 else 32
    options = EngineOptions(
        model=str(ROOT / f"sim/model/configs/{name}.json"),
        kv_cache_memory=f"{RECORDED['pool_bytes']}B",
        kv_cache_dtype=kv,
        engine="vllm-0.32:async_scheduling=false",
        max_num_batched_tokens=RECORDED["batched_tokens"],
    )
    size(
        gpu="custom:memory=4096GiB",
        options=options,
        context=(theirs["max_model_len"],),
        policy=(f"paging:block_size={block}",),
        json_output=True,
    )
    ours = json.loads(capsys.readouterr().out)["vllm_0.32"]
    assert ours["blocks"] == theirs["blocks"]
    assert ours["tokens"] == theirs["tokens"]
    assert ours["concurrency"] == theirs["concurrency"]
