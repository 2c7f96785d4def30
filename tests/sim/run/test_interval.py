"""Intervals: what a profile's own rows say of their errors, and what that does to a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sim.cost.kernels.llmservingsim import read_folder
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import Profile, Row, find_profile
from sim.cost.kernels.spread import (
    ASSUMED,
    COMPUTED,
    FITTED,
    LEAST,
    UNPROVEN,
    common_spread,
    deviation,
    repeat_spread,
    shares,
    slower,
    spreads,
)
from sim.hardware import find_device
from sim.measured.comparison import compare
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.model.presets import find_model
from sim.run.interval import interval, values_of
from sim.run.simulation import execute
from tests.made_up import (
    NORM_US,
    SAMPLER_US,
    gemm_us,
    write_model,
    write_profile_folder,
)
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
    slow = slower(profile, 1.02)
    assert set(slow.rows) == set(profile.rows)
    for kernel, rows in profile.rows.items():
        assert slow.rows[kernel][-1][4] == pytest.approx(1.02 * rows[-1][4])


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
    slow = slower(profile, 1.05).meta["all_reduce"][0]
    assert slow["large_latency"] == pytest.approx(1.05 * numbers["large_latency"])
    assert slow["large_bandwidth"] == pytest.approx(numbers["large_bandwidth"] / 1.05)
    assert slow["switch"] == numbers["switch"]


def a_profile(**meta: object) -> Profile:
    """Two kernels with straight tables, so that each has LEAST for its own."""
    straight: list[Row] = [(0, 0, n, 0, float(n)) for n in (10, 20, 30)]
    rows = {"qkv_proj": straight, "o_proj": straight}
    return Profile({"name": "x", **meta}, rows, "x")


def test_errors_of_kernels_add_as_squares_and_what_they_share_in_full() -> None:
    """0.6 and 0.4 of the time, each 0.3 per cent by itself; 2.5 per cent in common, unless a run
    was held against the profile."""
    shared = {"qkv_proj": 0.6, "o_proj": 0.4}
    own = LEAST * (0.6**2 + 0.4**2) ** 0.5
    assert deviation(a_profile(), shared) == pytest.approx((own**2 + UNPROVEN**2) ** 0.5)
    fitted = a_profile(kernel_time=(0.9, "fitted to a run"))
    assert deviation(fitted, shared) == pytest.approx((own**2 + LEAST**2) ** 0.5)


def test_what_nobody_timed_counts_for_more() -> None:
    """Sums assumed, fitted and measured; a kernel counted as bytes over bandwidth."""
    assert spreads(a_profile())["all_reduce"] == ASSUMED
    sums = a_profile(all_reduce_source="fitted to every second stretch")
    sums.rows["all_reduce"] = [(0, 0, n, 0, float(n)) for n in (10, 20, 30)]
    assert spreads(sums)["all_reduce"] == FITTED
    assert common_spread(sums) == 0  # they took up what was left
    timed = replace(sums, meta={"name": "x", "all_reduce_source": "nccl-tests"})
    assert spreads(timed)["all_reduce"] == pytest.approx(LEAST)
    assert common_spread(timed) == UNPROVEN
    assert spreads(a_profile(computed=["o_proj"]))["o_proj"] == COMPUTED


def test_shares_are_of_the_time_in_steps(tmp_path: Path) -> None:
    """By the made-up kernels' formulas: two decodes a step in a graph of two, four steps in 4 s."""
    config = str(write_model(tmp_path / "model"))
    profile = read_folder(write_profile_folder(tmp_path / "gpu"), name="x", model=config)
    cost = KernelTable(find_model(config), find_device("rtx-4090"), profile)
    counts = {"decodes": [2, 2], "prefill_tokens": [0, 0], "steps": [1, 3]}
    steps: dict[str, NDArray[Any]] = {name: np.array(values) for name, values in counts.items()}
    steps |= {"start_s": np.array([0.0, 1.0]), "end_s": np.array([1.0, 4.0])}
    found = shares(cost, steps)
    assert found["qkv_proj"] == pytest.approx(4 * gemm_us(64) / 1e6)  # layers; a whole tile
    assert found["layernorm"] == pytest.approx(4 * 2 * NORM_US / 1e6)
    assert found["sampler"] == pytest.approx(SAMPLER_US / 1e6)
    assert sum(found.values()) == pytest.approx(1)


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
    assert low < own * (1 - LEAST) < own * (1 + LEAST) < high
    assert high - low < 0.04 * own  # it says something


def test_what_has_no_interval_is_one_line() -> None:
    setup = prediction(read_measured(RTX_4090), cost="roofline")
    run = execute(replace(setup, trace=setup.trace))
    with pytest.raises(InputError, match="a roofline's is not known"):
        interval(setup, values_of(run))
    with pytest.raises(InputError, match="expected one of 80, 90, 95, 99"):
        interval(setup, values_of(run), 50)
