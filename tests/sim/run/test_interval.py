"""Intervals: what a profile's own rows say of their errors, and what that does to a run."""

from dataclasses import replace
from pathlib import Path

import pytest

from sim.cost.kernels.llmservingsim import read_folder
from sim.cost.kernels.profile import Profile, find_profile
from sim.cost.kernels.spread import LEAST, repeat_spread, shifted, spreads
from sim.measured.comparison import compare
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.run.interval import SCHEDULE, interval, values_of
from sim.run.simulation import execute
from tests.made_up import write_model, write_profile_folder
from workloads.errors import InputError

RTX_4090 = "rtx-4090-llama-3.1-8b"


def test_a_straight_table_errs_by_its_repetitions_alone(tmp_path: Path) -> None:
    """The made-up kernels are linear in tokens, so a row left out is found again."""
    config = str(write_model(tmp_path / "model"))
    profile = read_folder(write_profile_folder(tmp_path / "gpu"), name="x", model=config)
    assert repeat_spread(profile) == 0
    assert spreads(profile)["qkv_proj"] == pytest.approx(LEAST)


def test_a_row_off_its_neighbours_counts_a_quarter() -> None:
    """At 20 tokens 12 µs where the neighbours say 10: a sixth off; a gap half as wide errs 4 times
    less, and a median absolute deviation is 1.4826 times less than a standard deviation."""
    rows = {"qkv_proj": [(0, 0, 10, 0, 5.0), (0, 0, 20, 0, 12.0), (0, 0, 30, 0, 15.0)]}
    found = spreads(Profile({"name": "x"}, rows, "x"))["qkv_proj"]
    between = 1.4826 * (1 - 10 / 12) / 4
    assert found == pytest.approx((between**2 + LEAST**2) ** 0.5)


def test_slower_numbers_are_slower_in_everything() -> None:
    profile = find_profile("rtx-pro-6000-qwen3-32b-tp2")
    slow = shifted(profile, 1)
    by_kernel = spreads(profile)
    for kernel in ("attention", "o_proj"):
        a, b = profile.rows[kernel][0][4], slow.rows[kernel][0][4]
        assert b == pytest.approx(a * (1 + by_kernel[kernel]))
    sums, longer = profile.rows["all_reduce"][-1][4], slow.rows["all_reduce"][-1][4]
    assert longer >= 1.05 * sums  # they were fitted


def test_slower_sums_in_words_keep_their_switch() -> None:
    numbers = {
        "small_latency": 7e-6,
        "small_bandwidth": 10.5e9,
        "switch": 655_360.0,
        "large_latency": 39.3e-6,
        "large_bandwidth": 17.3e9,
    }
    profile = find_profile("rtx-pro-6000-qwen3-32b-tp2")
    profile = replace(profile, meta={**profile.meta, "all_reduce": (numbers, "x")})
    slow = shifted(profile, 1)
    fast, late = numbers, slow.meta["all_reduce"][0]
    assert late["large_latency"] == pytest.approx(1.05 * fast["large_latency"])
    assert late["large_bandwidth"] == pytest.approx(fast["large_bandwidth"] / 1.05)
    assert late["switch"] == fast["switch"]


def test_a_recorded_run_lies_within_its_interval() -> None:
    """All judged metrics at 90 per cent, and fewer at one that is far too narrow would be luck."""
    measured = read_measured(RTX_4090)
    setup = prediction(measured)
    run = execute(setup)
    bounds = interval(setup, values_of(run), 90)
    judged = [e for e in compare(measured, run) if e.tolerance_pct is not None]
    inside = sum(bounds.holds(e.name, e.measured) for e in judged)
    assert inside >= 0.85 * len(judged)
    low, high = bounds.bounds["tpot_ms_mean"]
    own = run["tpot_ms_mean"]
    assert own is not None
    assert low < own * (1 - SCHEDULE) < own * (1 + SCHEDULE) < high
    assert high - low < 0.15 * own  # it says something


def test_what_has_no_interval_is_one_line() -> None:
    setup = prediction(read_measured(RTX_4090), cost="roofline")
    run = execute(replace(setup, trace=setup.trace))
    with pytest.raises(InputError, match="a roofline's error is not known"):
        interval(setup, values_of(run))
    with pytest.raises(InputError, match="expected one of 80, 90, 95, 99"):
        interval(setup, values_of(run), 50)
