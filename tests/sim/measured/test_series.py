"""What a recorder saw: its clock, and the engine's reports that it kept."""

import csv
from pathlib import Path

import numpy as np
import pytest

import sim.measured
from sim.engine.record import USES, Log
from sim.measured.read import read_measured
from sim.measured.series import lead_s, reported_at

FIRST, TOKENS = np.array([0.5, 1.2, 2.05]), np.array([10, 20, 30])


def test_ticks_tell_when_their_clock_started() -> None:
    """Prompts of 10, 20 and 30 tokens in the ticks that end at 1, 2 and 3 s. The first was not
    later than 1 s (a lead of at most 0.5) and the third not before 2 s (at least -0.05)."""
    found = lead_s(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0]), FIRST, TOKENS)
    assert found == pytest.approx((0.5 - 0.05) / 2)


def test_half_second_ticks_count_a_rate() -> None:
    """10 tokens in the tick from 0.5 to 1 s (leads of 0 to 0.5), 20 in the next (-0.2 to 0.3), 30
    in that from 2 to 2.5 s (-0.05 to 0.45)."""
    ends = np.arange(1, 6) / 2
    rates = np.array([0.0, 20.0, 40.0, 0.0, 60.0])
    assert lead_s(ends, rates, FIRST, TOKENS) == pytest.approx((0.0 + 0.3) / 2)


@pytest.mark.parametrize(
    "rates", [[0.0, 0.0, 0.0], [10.0, 20.0, 31.0], [15.0, 15.0, 30.0], [60.0, 0.0, 0.0]]
)
def test_ticks_that_fit_no_clock_tell_nothing(rates: list[float]) -> None:
    """Not counted; a token too many; a prompt cut in two; all three within one second."""
    assert lead_s(np.array([1.0, 2.0, 3.0]), np.array(rates), FIRST, TOKENS) == 0


@pytest.mark.parametrize("name", ["rtx-4090-llama-3.1-8b", "rtx-pro-6000-qwen3-32b"])
def test_every_tick_of_the_recorded_runs_holds_the_tokens_that_it_counted(name: str) -> None:
    measured = read_measured(name)
    file = Path(sim.measured.__file__).parent / "runs" / name / "timeseries.csv"
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    lead = float(rows[0]["t"]) - measured.series["t"][0]
    assert 0.05 < lead < 0.15
    tick = np.floor(measured.first_token_s + lead).astype(np.int64)
    held = np.bincount(tick, measured.trace.prompt_tokens, int(float(rows[-1]["t"])))
    counted = {int(float(row["t"])) - 1: float(row["prompt_throughput"]) for row in rows}
    assert held.tolist() == [counted.get(i, 0) for i in range(len(held))]


def a_log() -> Log:
    """A chunk until 0.1 s, four decodes of 0.1 s; meanwhile another arrives, which is planned with
    the last of them, and the first request has all its tokens at 0.5 s."""
    steps: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {
        "start_s": np.array([0.0, 0.1]),
        "end_s": np.array([0.1, 0.5]),
        "first_step_s": np.array([0.1, 0.1]),
        "step_growth_s": np.array([0.0, 0.0]),
    }
    counts = {"steps": [1, 4], "decodes": [0, 1], "running": [1, 2], "waiting": [0, 0]}
    counts |= {name: [7, 9] for name in USES}
    columns = steps | {name: np.array(values) for name, values in counts.items()}
    requests = {"arrival_s": np.array([0.0, 0.3]), "finish_s": np.array([0.5, 0.9])}
    return Log(requests, columns, {}, np.empty(0), 0.9)


def test_a_report_is_of_the_last_step_that_ended() -> None:
    """Just after the first step; within the row of four; when the second waits; at the very end of
    the row, which is not over yet; and after it, when the first has left."""
    seen = reported_at(a_log(), np.array([0.1, 0.15, 0.25, 0.35, 0.5, 0.51]), 50)
    assert seen["running"].tolist() == [0, 1, 1, 1, 1, 1]
    assert seen["waiting"].tolist() == [0, 0, 0, 1, 1, 0]
    assert seen["free_bytes"].tolist() == [50, 7, 9, 9, 9, 9]
    assert seen["live_bytes"].tolist() == [0, 7, 9, 9, 9, 9]
