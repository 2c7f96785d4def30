"""Prediction beside measurement: a run compared with itself, and with the two shipped ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.engine.record import Log
from sim.measured.comparison import LATENCIES, compare, sampled_at, side_by_side
from sim.measured.log import measured_log
from sim.measured.prediction import prediction
from sim.measured.prefixes import prompt_blocks, read_prefixes
from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.run.simulation import Run, execute
from tests.made_up import write_as_measured
from workloads.errors import InputError

RTX_4090, RTX_PRO_6000 = "rtx-4090-llama-3.1-8b", "rtx-pro-6000-qwen3-32b"


def predicted(name: str, prefixes: str | None = None) -> tuple[Measured, Run]:
    measured = read_measured(name)
    prefix = read_prefixes(prefixes, measured)[0] if prefixes else None
    gpu = "rtx-pro-6000" if name == RTX_PRO_6000 else None
    return measured, execute(prediction(measured, gpu=gpu, prefix=prefix))


def test_a_run_compared_with_itself_has_no_error(tmp_path: Path) -> None:
    """Stamps of the epoch carry 0.2 µs, so a part in a million is what a float can say."""
    measured, run = predicted(RTX_4090)
    again = read_measured(str(write_as_measured(run, tmp_path / "twin", measured.meta)))
    for error in compare(again, run):
        assert error.error_pct == pytest.approx(0, abs=1e-3), error.name
        assert error.within


@pytest.mark.parametrize(
    ("name", "prefixes", "errors"),
    [
        (RTX_4090, None, (1.85, -0.03, 1.38)),
        (RTX_4090, "transferred", (0.58, 0.20, 0.49)),
        (RTX_4090, "inferred", (0.65, 0.27, 0.55)),
        (RTX_PRO_6000, None, (3.76, 2.11, 2.80)),
        (RTX_PRO_6000, "transferred", (0.89, -0.16, 0.27)),
        (RTX_PRO_6000, "inferred", (0.26, -0.32, -0.09)),
    ],
)
def test_errors_of_the_means_are_those_published(
    name: str, prefixes: str | None, errors: tuple[float, float, float]
) -> None:
    """docs/accuracy.md; per cent of TTFT, TPOT and E2E. A change here is a change there."""
    by_name = {e.name: e for e in compare(*predicted(name, prefixes))}
    found = [by_name[f"{latency}_mean"].error_pct for latency in LATENCIES]
    assert found == pytest.approx(errors, abs=0.01)


def test_measured_means_are_those_published_with_the_runs() -> None:
    """Mean TTFT, TPOT and E2E, in seconds, computed from the stamps by another program."""
    measured, run = predicted(RTX_4090)
    by_name = {e.name: e.measured for e in compare(measured, run)}
    assert by_name["ttft_ms_mean"] == pytest.approx(65_486.3, abs=0.1)
    assert by_name["tpot_ms_mean"] == pytest.approx(32.4, abs=0.1)
    assert by_name["e2el_ms_p50"] == pytest.approx(83_423.8, abs=0.1)
    assert by_name["makespan_s"] == pytest.approx(183.5693, abs=1e-4)


def test_fast_forward_is_exact_with_kernel_times() -> None:
    """A saturated run of preemptions: the same attoseconds, every request."""
    measured = read_measured(RTX_4090)
    setup = prediction(measured, engine="vllm-0.19:length_skew=true,kernel_overlap_s=33e-6")
    fast, single = (execute(replace(setup, fast_forward=on)) for on in (True, False))
    assert fast.log.end_s == single.log.end_s
    for name, column in fast.log.requests.items():
        np.testing.assert_array_equal(column, single.log.requests[name], err_msg=name)
    assert len(fast.log.steps["steps"]) < len(single.log.steps["steps"])


def test_the_engine_keeps_a_block_to_itself() -> None:
    setup = prediction(read_measured(RTX_4090))
    assert setup.pool.capacity_bytes == 2587 * 2_097_152
    assert sum(line.size_bytes for line in setup.ledger.lines) == setup.device.memory_bytes


def test_a_measured_run_in_the_tables_of_a_simulated_one() -> None:
    measured = read_measured(RTX_4090)
    log = measured_log(measured, 1000)
    assert log.end_s == pytest.approx(183.5693, abs=1e-4)
    line = log.timeline
    memory = sum(line[f"{use}_bytes"] for use in ("live", "reserved", "internal", "free"))
    assert (memory == 1000).all()


def test_shared_blocks_are_named_after_the_first_with_them() -> None:
    trace = read_measured(RTX_4090).trace
    blocks = prompt_blocks(trace, 16, [(1, 0, 3), (2, 1, 2)])
    start = blocks.offsets
    a, b, c = (blocks.ids[start[i] : start[i + 1]] for i in range(3))
    assert (b[:3] == a[:3]).all()
    assert (c[:2] == a[:2]).all()
    assert len({*a, *b, *c}) == len(a) + len(b) + len(c) - 5


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("requests.jsonl", '{"input_toks": 1, "output_toks": 1, "arrival_time": 1}\n', "queued_ts"),
        ("timeseries.csv", "t,running\n1,2\n", "timeseries.csv: expected numbers"),
        ("meta.json", "{", "meta.json: .*expected JSON"),
    ],
)
def test_a_broken_run_is_one_line(tmp_path: Path, file: str, text: str, message: str) -> None:
    _, run = predicted(RTX_4090)
    folder = write_as_measured(run, tmp_path / "run", {})
    (folder / file).write_text(text)
    with pytest.raises(InputError, match=message):
        read_measured(str(folder))


def test_what_the_run_does_not_say_must_be_given() -> None:
    with pytest.raises(InputError, match="expected --gpu"):
        prediction(read_measured(RTX_PRO_6000))


def test_a_run_that_does_not_fit_is_one_line() -> None:
    """A context limit below its longest request: some would be cut, so nothing is compared."""
    measured = read_measured(RTX_4090)
    options = {**measured.engine_options, "max_model_len": 1000}
    small = replace(measured, meta={**measured.meta, "engine_kwargs": options})
    with pytest.raises(InputError, match="don't fit the predicted engine whole"):
        compare(small, execute(prediction(small)))


def test_means_of_the_series_are_sampled_as_the_recorder_did() -> None:
    """The recorder's own mean of running requests is 32.3; the model is sampled at its seconds."""
    measured, run = predicted(RTX_4090)
    real, guess = side_by_side(measured, run)
    assert (guess.log.timeline["time_s"] == real.log.timeline["time_s"]).all()
    assert measured.series["running"].mean() == pytest.approx(32.3043, abs=1e-4)
    assert guess.log.timeline["running"].max() <= 256


def test_a_recorder_sees_the_first_sample_at_or_after_its_second() -> None:
    """Samples at 1, 2.5 and 3 s of a pool of 50 bytes, asked for at 1, 2 and 4 s."""
    time = np.array([1.0, 2.5, 3.0])
    line = {"time_s": time, "running": np.array([1, 2, 3]), "free_bytes": np.array([40, 30, 20])}
    seen = sampled_at(Log({}, {}, line, time, 3.0), np.array([1.0, 2.0, 4.0]), 50)
    assert seen["time_s"].tolist() == [1, 2, 4]
    assert seen["running"].tolist() == [1, 2, 0]
    assert seen["free_bytes"].tolist() == [40, 30, 50]
