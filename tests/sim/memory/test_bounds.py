"""Bounds of a KV budget: from engines that logged theirs."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sim.commands.size import size
from sim.hardware import find_device
from sim.memory.bounds import LOGGED_BYTES, capacity_bounds
from sim.memory.ledger import Ledger, kv_budget
from sim.memory.profiled import VLLM_0_19, VLLM_0_32
from sim.model.presets import find_model
from sim.run.options import EngineOptions
from workloads.errors import InputError

GIB, BLOCK = 2**30, 2 * 2**20
PAGING = "paging:block_size=16"


def foretold() -> list[tuple[Ledger, float]]:
    """The budgets of docs/sizing.md that nothing was fitted to, and what the engines logged."""
    llama, rtx_4090 = find_model("llama-3.1-8b"), find_device("rtx-4090")
    a5000 = find_device("custom:memory=23.57GiB", memory_alone=True)
    return [
        (kv_budget(llama, rtx_4090), 2588 * BLOCK),
        (kv_budget(llama, rtx_4090, max_num_seqs=128), 2950 * BLOCK),
        (kv_budget(llama, rtx_4090, profiled=VLLM_0_19), 2588 * BLOCK),
        (kv_budget(llama, rtx_4090, max_num_seqs=128, profiled=VLLM_0_19), 2950 * BLOCK),
        (
            kv_budget(
                find_model("gpt-oss-20b"),
                find_device("a100-80gb"),
                gpu_memory_utilization=0.65,
                profiled=VLLM_0_19,
            ),
            36.56 * GIB,
        ),
        (
            kv_budget(
                find_model("qwen3-8b"), a5000, gpu_memory_utilization=0.9764, profiled=VLLM_0_32
            ),
            6.37 * GIB,
        ),
    ]


def test_the_spread_is_that_of_the_logged_budgets() -> None:
    errors = [ledger.kv_bytes - logged for ledger, logged in foretold()]
    rms = (sum(error**2 for error in errors) / len(errors)) ** 0.5
    assert pytest.approx(rms, rel=0.05) == LOGGED_BYTES


def test_logged_budgets_lie_within() -> None:
    """Five of six at 90 per cent: the cold start is off by 1.65 standard deviations."""
    inside = 0
    for ledger, logged in foretold():
        low, high = capacity_bounds(ledger, (), (), 1, level=90, given=False).kv_bytes
        inside += low <= logged <= high
    assert inside >= 5


def test_requests_at_the_ends_of_the_bounds() -> None:
    """1.6449 × 256 MiB either side are 210 blocks of 2 MiB; a request of 4,096 tokens has 256."""
    ledger = kv_budget(find_model("llama-3.1-8b"), find_device("rtx-4090"))
    found = capacity_bounds(ledger, [PAGING], (4096,), 4096, level=90, given=False)
    low, high = found.kv_bytes
    assert high - ledger.kv_bytes == ledger.kv_bytes - low == round(1.6449 * LOGGED_BYTES)
    assert found.requests == {(PAGING, 4096): (low // BLOCK // 256, high // BLOCK // 256)}


def test_a_given_budget_is_what_it_is_and_none_is_below_nothing() -> None:
    llama, device = find_model("llama-3.1-8b"), find_device("rtx-4090")
    ledger = kv_budget(llama, device, kv_cache_memory_bytes=BLOCK * 16)
    given = capacity_bounds(ledger, [PAGING], (256,), 256, level=99, given=True)
    assert given.kv_bytes == (BLOCK * 16, BLOCK * 16)
    assert given.requests == {(PAGING, 256): (1, 1)}
    assert capacity_bounds(ledger, (), (), 1, level=99, given=False).kv_bytes[0] == 0


def test_weights_of_a_format_that_is_not_read_widen_it() -> None:
    """Uniform over 4 GiB, a standard deviation of 4 / √12 GiB beside the engine's 1 / 4."""
    ledger = kv_budget(find_model("llama-3.1-8b"), find_device("rtx-4090"))

    class Ranged:
        def range_bytes(self) -> tuple[int, int]:
            return 14 * GIB, 18 * GIB

    weights = type("Model", (), {"weights": Ranged()})()
    low, high = capacity_bounds(
        replace(ledger, model=weights), (), (), 1, level=90, given=False
    ).kv_bytes
    assert (high - low) / 2 == pytest.approx(1.6449 * (16 / 12 + 1 / 16) ** 0.5 * GIB)


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    engine = EngineOptions(model="llama-3.1-8b")
    asked: dict[str, Any] = {"gpu": "rtx-4090", "options": engine, "context": (4096,)}
    size(**asked, interval=90)
    out = capsys.readouterr().out
    assert "90 % interval: KV cache 4.61 GiB to 5.43 GiB" in out
    assert "requests of 4,096 tokens: 9 to 10 fit" in out
    size(**asked, interval=90, json_output=True)
    found = json.loads(capsys.readouterr().out)["interval"]
    assert found["level"] == 90
    assert found["requests"][0]["high"] == 10
    with pytest.raises(InputError, match="--interval 50: expected one of 80, 90, 95, 99"):
        size(**asked, interval=50)
