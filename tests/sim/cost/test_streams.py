"""Kernels that only move bytes, and sums over GPUs, as NVIDIA's tables are completed with them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.cost.kernels.all_reduce import MeasuredAllReduce
from sim.cost.kernels.grid import Line
from sim.cost.kernels.nvidia import reduce_points
from sim.cost.kernels.profile import find_profile, shipped_profiles
from sim.cost.kernels.streams import FLOOR_US, streams, token_bytes
from sim.hardware import find_device
from sim.model.geometry import Model
from sim.model.presets import find_model
from tests.made_up import write_model
from workloads.errors import InputError


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Qwen3-14B's shape: hidden 5,120, MLP 17,408, 40 heads and 8 KV heads of 128."""
    return find_model(
        str(
            write_model(
                tmp_path,
                hidden_size=5120,
                intermediate_size=17_408,
                num_attention_heads=40,
                num_key_value_heads=8,
                num_hidden_layers=40,
            )
        )
    )


def test_bytes_of_a_token_by_hand(model: Model) -> None:
    assert token_bytes(model) == {
        "layernorm": 4 * 5120 * 2,
        "act_fn": 3 * 17_408 * 2,
        "rotary_emb": 2 * 48 * 128 * 2,
        "qk_norm": 0,
        "kv_write": 2 * 8 * 128 * (2 + 2),
    }
    assert token_bytes(model, tp=2, kv_bytes=1)["kv_write"] == 2 * 4 * 128 * (2 + 1)


def test_qwen3_norms_queries_and_keys() -> None:
    """40 heads and 8 KV heads of 128, read and written in 2 B."""
    qwen = find_model("qwen3-14b")
    assert token_bytes(qwen)["qk_norm"] == 2 * 48 * 128 * 2
    assert "qk_norm" in streams(qwen, find_device("h100"))
    assert token_bytes(find_model("llama-3.1-8b"))["qk_norm"] == 0


def test_a_floor_and_then_bandwidth(model: Model) -> None:
    """On an H100 the activation of 8,192 tokens moves 855,638,016 B at 90 % of 3.35 TB/s."""
    rows = streams(model, find_device("h100"))
    times = {kernel: Line((row[2], row[4]) for row in found) for kernel, found in rows.items()}
    assert times["act_fn"].at(1) == FLOOR_US
    assert times["act_fn"].at(8192) == pytest.approx(855_638_016 / (0.9 * 3.35e6), rel=1e-6)
    assert times["layernorm"].at(32) == FLOOR_US
    assert set(times) == {"layernorm", "act_fn", "rotary_emb", "kv_write", "final_layernorm"}


def test_the_floor_is_the_median_of_the_shipped_profiles() -> None:
    small = []
    for name in shipped_profiles():
        for kernel in ("layernorm", "act_fn", "rotary_emb"):
            small += [row[4] for row in find_profile(name).rows[kernel] if row[2] == 1]
    small.sort()
    assert len(small) == 9
    assert small[4] == pytest.approx(FLOOR_US, abs=0.15)
    assert small[0] >= 1.85
    assert small[-1] <= 4.25


def table(folder: Path, part: str, name: str, **columns: list[object]) -> None:
    place = folder / "comm" / part
    place.mkdir(parents=True)
    pq.write_table(pa.table(columns), place / f"{name}_perf.parquet")


def test_sums_over_gpus_come_from_the_tables(tmp_path: Path) -> None:
    """Sizes are elements of two bytes; graph replays go before eager launches."""
    table(
        tmp_path,
        "vllm/0.24.0",
        "custom_allreduce",
        kernel_source=["vLLM_custom_graph", "vLLM_custom_eager", "vLLM_custom_graph"],
        allreduce_dtype=["bfloat16"] * 3,
        num_gpus=[2, 2, 2],
        message_size=[1000, 1000, 3000],
        latency=[0.004, 0.02, 0.008],
    )
    rows = reduce_points(tmp_path, "vllm", 2)
    reduce = MeasuredAllReduce(rows)
    assert reduce.seconds(2000) == pytest.approx(4e-6)
    assert reduce.seconds(4000) == pytest.approx(6e-6)
    assert reduce.seconds(100) == pytest.approx(4e-6)  # no message is faster than a small one
    assert reduce.seconds(10_000) == pytest.approx(12e-6)
    with pytest.raises(InputError, match="no all-reduce over 4 GPUs"):
        reduce_points(tmp_path, "vllm", 4)
