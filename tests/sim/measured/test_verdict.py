"""What a comparison says in the end, and of runs that come by name alone."""

from dataclasses import replace

import pytest

from sim.commands.verdict import verdict
from sim.measured.comparison import Tolerance, compare
from sim.measured.options import server_options
from sim.measured.prediction import prediction
from sim.measured.read import read_measured, shipped_runs
from sim.measured.run import Measured
from sim.run.simulation import Run, execute

LIVE = "vllm-cpu-llama-103m"


def said(measured: Measured, run: Run, per_cent: float) -> str:
    tolerance = Tolerance(per_cent, per_cent, per_cent, per_cent)
    return verdict(measured, run, compare(measured, run, tolerance), server_options(measured))


def test_a_verdict_names_its_tolerances_and_the_counts_that_differ() -> None:
    """The record counts eleven preemptions; on a faster device there are none. No tolerance,
    however wide, makes that a prediction."""
    measured = read_measured(LIVE)
    run = execute(prediction(measured, gpu="h100", cost="roofline"))
    assert run["num_preemptions"] == 0
    wide = said(measured, run, 1e6)
    assert "within ±1,000,000 %" in wide
    assert "preemptions differ (0 predicted, 11 measured)" in wide
    assert "to plan with" not in wide
    assert "preemptions differ (0 predicted, 11 measured)" in said(measured, run, 1)
    uncounted = {k: v for k, v in measured.meta.items() if not k.startswith(("num_pre", "prefix"))}
    bare = replace(measured, meta=uncounted)
    assert "too wide to plan with" in said(bare, run, 1e6)


@pytest.mark.parametrize("name", shipped_runs())
def test_a_shipped_run_needs_no_option(name: str) -> None:
    setup = prediction(read_measured(name))
    assert setup.device.name.removeprefix("rtx-") in name or name.startswith("vllm-cpu")
