"""What a comparison says in the end, and of runs that come by name alone."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from sim.commands.server_flags import ServerFlags
from sim.commands.verdict import notes, verdict
from sim.measured.comparison import Tolerance, compare
from sim.measured.contradictions import overridden
from sim.measured.options import server_options
from sim.measured.prediction import prediction
from sim.measured.read import read_measured, shipped_runs
from sim.measured.run import Measured
from sim.run.interval import interval
from sim.run.simulation import Run, execute
from workloads.errors import InputError
from workloads.transform import first

LIVE, R = "vllm-cpu-llama-103m", "rtx-pro-6000-qwen3-32b"


def said(measured: Measured, run: Run, per_cent: float) -> str:
    tolerance = Tolerance(per_cent, per_cent, per_cent, per_cent)
    return verdict(measured, run, compare(measured, run, tolerance), server_options(measured))


def test_a_verdict_names_its_tolerances_and_the_counts_that_differ() -> None:
    """The record counts eleven preemptions; on a faster device there are none. No tolerance,
    however wide, makes that a prediction."""
    measured = read_measured(LIVE)
    fast = "custom:memory=80GiB,bandwidth=3TB/s,flops=900TFLOP/s"
    run = execute(prediction(measured, gpu=fast, cost="roofline"))
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tp": 0}, "--tp 0: expected at least 1"),
        ({"tp": 1}, "--tp 1: rtx-pro-6000-qwen3-32b was measured with --tp 2"),
        (
            {"model": "llama-3.1-8b"},
            "--model llama-3.1-8b: rtx-pro-6000-qwen3-32b was measured with Qwen/Qwen3-32B",
        ),
    ],
)
def test_another_model_or_degree_than_the_record_s_is_refused(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        prediction(read_measured(R), **given)
    same = prediction(read_measured(R), model="qwen3-32b", tp=2, gpu="rtx-pro-6000")
    assert (same.model.name, same.tp) == ("qwen3-32b", 2)


def test_a_run_of_a_cpu_is_of_no_gpu() -> None:
    """The step times are the CPU's own, whatever device is named beside them."""
    measured = read_measured(LIVE)
    for cost in (None, "roofline"):
        with pytest.raises(InputError, match=f"--gpu h100: {LIVE} was measured on Intel"):
            prediction(measured, gpu="h100", cost=cost)
    with pytest.raises(InputError, match=r"measured with llama-103m, random weights \(config.json"):
        prediction(measured, model="llama-3.1-8b")
    bare = replace(measured, meta={"vllm_version": "0.32.0"}, folder=None)
    with pytest.raises(InputError, match=r"not with llama-3.1-8b \([\d,]+ parameters of 2 B\)"):
        prediction(bare, model="llama-3.1-8b", cost=measured.beside("steps.json"))


def test_what_overrides_the_record_is_said_before_anything_is_blamed() -> None:
    measured = read_measured(R)
    few = replace(
        measured,
        trace=first(measured.trace, 20),
        first_token_s=measured.first_token_s[:20],
        last_token_s=measured.last_token_s[:20],
        recorded_row=measured.recorded_row[:20],
    )
    options = ServerFlags(max_num_seqs=16, max_num_batched_tokens=2048).options(few)
    run = execute(prediction(few, engine="vllm-0.32", options=options))
    changed = [
        "max_num_seqs 16 (meta.json: 128)",
        "engine vllm-0.32 (meta.json: vllm_version 0.19.0)",
    ]
    assert overridden(options, run.setup.engine.name) == changed
    for per_cent, words in (
        (1e6, "but of another server than"),
        (0.01, "The record is overridden ("),
    ):
        tolerance = Tolerance(per_cent, per_cent, per_cent, per_cent)
        text = verdict(few, run, compare(few, run, tolerance), options)
        assert words in text
        assert all(each in text for each in changed)
        assert not any(word in text for word in ("assumed", "kernels", "to plan with"))
    assert overridden(server_options(few), "vllm-0.19:length_skew=true") == []


def test_an_interval_of_step_times_blames_no_roofline() -> None:
    setup = prediction(read_measured(LIVE))
    with pytest.raises(InputError, match="step times don't say their own"):
        interval(setup, {})


def test_host_work_is_in_step_times_of_whole_steps() -> None:
    measured = read_measured(LIVE)
    options = server_options(measured)
    run = execute(prediction(measured))
    assert options["enforce_eager"] is True
    assert not any("host" in note for note in notes(options, run))
    other = replace(run, setup=replace(run.setup, cost_table=None))
    assert any("host's work between eager kernels" in note for note in notes(options, other))


def test_a_record_without_some_of_its_requests_is_refused(tmp_path: Path) -> None:
    shipped = files("sim.measured").joinpath(f"runs/{R}")
    for name in ("requests.jsonl", "timeseries.csv"):
        (tmp_path / name).write_text(shipped.joinpath(name).read_text())
    meta = json.loads(shipped.joinpath("meta.json").read_text())
    (tmp_path / "meta.json").write_text(json.dumps({**meta, "num_requests": 301}))
    with pytest.raises(
        InputError, match=r"holds 300 requests, but meta\.json says num_requests 301"
    ):
        read_measured(str(tmp_path))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(
        InputError, match=r"empty: holds no requests\.jsonl; expected a measured run"
    ):
        read_measured(str(empty))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"block_size": 0}, "the command line: block_size is 0, expected at least 1"),
        ({"max_num_seqs": 0}, "max_num_seqs=0, expected at least 1"),
        ({"gpu_memory_utilization": 0.0}, "expected more than 0 and at most 1"),
        ({"num_gpu_blocks": 0}, "expected"),
        ({"max_model_len": 0}, "max_model_len=0"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens=0"),
        ({"max_concurrency": 0}, "max_concurrency 0: expected at least 1"),
    ],
)
def test_nothing_is_not_what_was_not_given(flags: dict[str, Any], message: str) -> None:
    measured = read_measured(R)
    with pytest.raises(InputError, match=message):
        prediction(measured, options=ServerFlags(**flags).options(measured))
