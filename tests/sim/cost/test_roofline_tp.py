"""The roofline over several GPUs: sums counted at stated rates, and said to be too fast."""

import pytest

from sim.cost.roofline import Roofline
from sim.hardware import find_device
from sim.measured.comparison import compare
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.model.presets import find_model
from sim.plan import AS_PER_S, StepPlan
from sim.run.simulation import execute


def test_sums_take_their_latency_and_their_bytes() -> None:
    """64 layers sum twice and the embedding once: 129 of 20 µs and 8 · 5,120 · 2 B at 64 GB/s."""
    model, device = find_model("qwen3-32b"), find_device("rtx-pro-6000")
    size = model.kv_bytes_per_token(tp=2)
    plan = StepPlan(0, 1, 8, 800, 800 * size, 8 * size, 0, (), (), (), ())
    both, one = Roofline(model, device, 2), Roofline(model, device, 1)
    assert not one.warnings
    assert len(both.warnings) == 1
    halves = plan._replace(read_bytes=0, read_growth_bytes=0)
    halved = (one.linear(halves)[0] - 10**15) // 2 + 10**15  # all but 1 ms of host work
    sums = both.linear(halves)[0] - halved
    expected = 129 * (20e-6 + 8 * 5120 * 2 / 64e9)
    assert sums / AS_PER_S == pytest.approx(expected, rel=1e-6)


def test_the_factor_it_is_known_to_be_off_is_that_of_the_shipped_run() -> None:
    """The warning's numbers: measured over predicted, TPOT, E2E and TTFT."""
    measured = read_measured("rtx-pro-6000-qwen3-32b")
    run = execute(prediction(measured, gpu="rtx-pro-6000", cost="roofline"))
    by_name = {e.name: e.measured / e.predicted for e in compare(measured, run)}
    for latency, factor in (("tpot", 1.7), ("e2el", 1.9), ("ttft", 2.3)):
        assert by_name[f"{latency}_ms_mean"] == pytest.approx(factor, abs=0.05)
        assert f"{factor}" in run.cost.warnings[0]
