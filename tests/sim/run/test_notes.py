"""Options without effect are allowed and said."""

import pytest

from sim.run.checks import notes
from sim.run.simulation import prepare
from workloads import read_trace
from workloads.transform import first

TRACE = first(read_trace("azure-2023-conv"), 2)
DEEPSEEK = {"model": "deepseek-v3", "tp": 8, "max_model_len": 4096}


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (
            {"policy": "paging+sliding_window:window=4096"},
            "paging+sliding_window:window=4096: a window of 4,096 tokens covers every context "
            "(up to 4,096), so nothing is forgotten",
        ),
        (
            {"policy": "paging:layers=capped"},
            "paging:layers=capped: no layer of llama-2-7b has a window to cap",
        ),
        (
            {"policy": "preallocation:max_len=5000"},
            "preallocation:max_len=5000: max_len is taken as the longest context, 4,096",
        ),
        ({"max_model_len": 5000}, "llama-2-7b was made for 4,096 positions, not 5,000"),
        (
            {"engine": "default:length_skew=false"},
            "--engine default:length_skew=false: how kernels run matters to --cost table alone",
        ),
        (
            {"swap_space": "8GiB"},
            "--swap-space: nothing is swapped without --preemption swap",
        ),
        (
            {**DEEPSEEK, "policy": "paging:block_size=16"},
            "block_size=16: of vLLM's kernels for latent attention FlashMLA takes multiples of 64 "
            "tokens, CUTLASS of 128, FlashInfer of 32; Triton, and on Hopper FlashAttention, take "
            "16 (docs/sizing.md)",
        ),
        (
            {**DEEPSEEK, "policy": "paging:block_size=8"},
            "block_size=8: vLLM's latent attention takes multiples of 16 tokens (docs/sizing.md)",
        ),
        (
            {**DEEPSEEK, "model": "deepseek-v3.2", "policy": "paging:block_size=32"},
            "block_size=32: vLLM's sparse latent attention takes multiples of 64 tokens "
            "(docs/sizing.md)",
        ),
        ({**DEEPSEEK, "policy": "paging:block_size=64"}, None),
        ({**DEEPSEEK, "policy": "paging:block_size=128+prefix"}, None),
        ({**DEEPSEEK, "policy": "preallocation"}, None),
        ({"swap_space": "8GiB", "preemption": "swap"}, None),
        ({"policy": "paging+sliding_window:window=4000"}, None),
        ({"policy": "paging:layers=capped", "model": "gemma-3-27b"}, None),
    ],
    ids=str,
)
def test_what_changes_nothing(options: dict[str, object], note: str | None) -> None:
    setup = prepare(TRACE, **{"model": "llama-2-7b", "gpu": "h200", **options})  # type: ignore[arg-type]
    assert list(notes(setup)) == ([note] if note else [])


@pytest.mark.parametrize(
    ("options", "here"),
    [({}, "as here"), ({"max_num_seqs": 64}, "here 64 and 8,192")],
    ids=str,
)
def test_a_servers_own_limits_are_said(options: dict[str, int], here: str) -> None:
    setup = prepare(TRACE, model="llama-2-7b", gpu="h200", engine="vllm-0.32", **options)  # type: ignore[arg-type]
    assert list(notes(setup)) == [
        "--engine vllm-0.32: its server takes 1,024 requests at once and 8,192 tokens a step on "
        f"h200; {here}"
    ]
    assert setup.limits.max_num_batched_tokens == 8192
