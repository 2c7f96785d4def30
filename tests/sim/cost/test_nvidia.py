"""NVIDIA's tables as a profile: their own points come back; what they lack is said."""

from pathlib import Path

import pytest

from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.nvidia import at, beside_roofline, decode_points, gemm_points, imported
from sim.cost.kernels.profile import find_profile, write_profile
from sim.hardware import find_device
from sim.model.presets import find_model
from sim.plan import Chunk, StepPlan
from workloads.errors import InputError

TABLES = Path(__file__).parents[2] / "data" / "nvidia"
ATTENTION = TABLES / "h200_sxm/attention/vllm/0.24.0/generation_attention_perf.parquet"
GEMM = TABLES / "h200_sxm/gemm/vllm/0.24.0/gemm_perf.parquet"


@pytest.mark.parametrize(
    ("batch", "context", "kv_type", "window", "ms"),
    [
        (1, 8192, "bfloat16", 0, 0.0189),
        (64, 4096, "bfloat16", 0, 0.271),
        (64, 4096, "fp8", 0, 0.193),
        (64, 4096, "bfloat16", 128, 0.0296),
    ],
)
def test_decode_on_an_h200(batch: int, context: int, kv_type: str, window: int, ms: float) -> None:
    """32/8 heads of 128, milliseconds a layer, as NVIDIA measured them."""
    points = decode_points(ATTENTION, 32, 8, 128, kv_type, window)
    assert at(points, batch, context) / 1e3 == pytest.approx(ms, rel=5e-3)


def test_what_a_byte_count_does_not_say() -> None:
    """A floor of about 11 µs; FP8 slower than bf16 at batch 1, 1.4 times faster at batch 64."""
    bf16, fp8 = (decode_points(ATTENTION, 32, 8, 128, kv) for kv in ("bfloat16", "fp8"))
    assert 10 < at(bf16, 1, 2) < 13
    assert at(fp8, 1, 8192) > at(bf16, 1, 8192)
    assert at(bf16, 64, 4096) / at(fp8, 64, 4096) == pytest.approx(1.4, abs=0.05)


def test_a_product_between_measured_shapes() -> None:
    """28,672 columns lie between 16,384 and 51,200: 35 % of the way, at each height."""
    low, between, high = (dict(gemm_points(GEMM, n, 4096)) for n in (16_384, 28_672, 51_200))
    share = (28_672 - 16_384) / (51_200 - 16_384)
    for m in (1, 128, 4096):
        assert between[m] == pytest.approx(low[m] + share * (high[m] - low[m]))


def test_a_profile_of_a_model(tmp_path: Path) -> None:
    """64 sequences of 4,096 keys on Llama-3.1-8B: 32 times the layer's time is in the step."""
    model, device = find_model("llama-3.1-8b"), find_device("h200")
    file = tmp_path / "h200.parquet"
    write_profile(imported(model, device, name="h200", tables=TABLES), file)
    table = KernelTable(model, device, find_profile(str(file)))
    size = model.kv_bytes_per_token()
    keys = 64 * 4096
    plan = StepPlan(0, 1, 64, keys, keys * size, 64 * size, 0, (), (), (), ())
    half = plan._replace(context_tokens=keys // 2, read_bytes=keys // 2 * size)
    spared = (table.linear(plan)[0] - table.linear(half)[0]) / 1e12
    points = decode_points(ATTENTION, 32, 8, 128, "bfloat16")
    assert spared == pytest.approx(32 * (at(points, 64, 4096) - at(points, 64, 2048)), rel=1e-4)
    assert table.warnings == (
        "unequal contexts were not measured: batches wait for no longest one",
    )
    table.linear(plan._replace(prefill_tokens=512, chunks=(Chunk(99, 512, 512, True),)))
    assert len(table.warnings) == 3  # and earlier tokens by roofline, decodes beside by sum


def test_what_the_tables_do_not_hold() -> None:
    with pytest.raises(InputError, match="no tables; expected one of a100-80gb"):
        imported(find_model("llama-3.1-8b"), find_device("l4"), name="x", tables=TABLES)
    with pytest.raises(InputError, match="dense models of full attention"):
        imported(find_model("gpt-oss-20b"), find_device("h200"), name="x", tables=TABLES)
    with pytest.raises(InputError, match="no decode of 33/8 heads"):
        decode_points(ATTENTION, 33, 8, 128, "bfloat16")


def test_the_roofline_s_error_on_the_same_points() -> None:
    """2 x 8 heads x 128 x 2 B = 4,096 B a key in bf16, at 0.9 x 4.8 TB/s."""
    lines = list(beside_roofline(find_model("llama-3.1-8b"), find_device("h200"), tables=TABLES))
    keys = [8192, 64 * 4096, 64 * 4096 / 2, 64 * 128]  # in bf16's bytes
    assert [line.measured_ms for line in lines] == pytest.approx(
        [0.0189, 0.271, 0.193, 0.0296], rel=5e-3
    )
    assert [line.roofline_ms for line in lines] == pytest.approx(
        [n * 4096 / (0.9 * 4.8e12) * 1e3 for n in keys]
    )
    assert str(lines[3]).endswith("0.0296 ms measured, 0.0078 ms by roofline (-74 %)")
