"""Who asks, from options: what is refused, and what a run makes of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.engine.closed_loop import ClosedLoop
from sim.run.checks import notes
from sim.run.load import closed_loop, parse_think_time
from sim.run.options import RunOptions
from sim.run.simulation import prepare, simulate
from workloads import read_trace
from workloads.errors import InputError
from workloads.made import make_workload
from workloads.schema import Trace
from workloads.transform import first

SMALL = {"model": "llama-3-8b", "gpu": "a100-80gb", "policy": "paging"}


def test_first_is_named() -> None:
    with pytest.raises(InputError, match="--first -3: expected a whole number of 1 or more"):
        prepare("azure-2023-conv", **SMALL, first=-3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"concurrency": 8}, ClosedLoop(8)),
        ({"concurrency": 8, "request_rate": 2.0}, ClosedLoop(8, paced=True)),
        ({"users": 3}, ClosedLoop(3)),
        ({"users": 3, "think_time": "2s"}, ClosedLoop(3, 2.0)),
        (
            {"users": 3, "think_time": "exponential:500ms", "seed": 7},
            ClosedLoop(3, 0.5, True, seed=7),
        ),
    ],
)
def test_what_options_say(given: dict[str, object], expected: ClosedLoop | None) -> None:
    assert closed_loop(RunOptions(model="llama-3-8b", **given)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": 0}, "--concurrency 0: expected a whole number from 1"),
        ({"users": 10**9}, "--users 1000000000: expected"),
        ({"users": 2, "concurrency": 2}, "expected one of them"),
        ({"think_time": "3s"}, "expected --users N"),
        ({"concurrency": 2, "think_time": "3s"}, "expected --users N beside it"),
        ({"users": 2, "request_rate": 1.0}, "expected no rate"),
        ({"users": 2, "think_time": "3"}, "expected a number and a unit"),
        ({"users": 2, "think_time": "normal:3s"}, "exponential:10s"),
    ],
)
def test_contradictions(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        closed_loop(RunOptions(model="llama-3-8b", **given))  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_think_time_is_not_random() -> None:
    assert parse_think_time("exponential:0s") == (0.0, False)


def test_concurrency_keeps_so_many_in_flight() -> None:
    """Sixteen are asked at 0; each later one at the instant at which another is answered."""
    run = simulate("azure-2023-conv", first=120, concurrency=16, **SMALL)
    asked = np.sort(run.log.requests["arrival_s"])
    answered = np.sort(run.log.requests["finish_s"])
    assert (asked[:16] == 0).all()
    assert asked[16:].tolist() == answered[: 120 - 16].tolist()


def test_replaying_stamps_forgets_who_waits() -> None:
    trace = make_workload("chat", 12, 0.5, seed=2)
    run = simulate(trace, replay="stamps", **SMALL)
    assert run.log.requests["arrival_s"].tolist() == trace.arrival_s.tolist()
    answered = simulate(trace, **SMALL)
    assert (answered.log.requests["arrival_s"] >= trace.arrival_s - 1e-9).all()
    with pytest.raises(InputError, match="has no sessions"):
        simulate("burstgpt-sample", replay="stamps", **SMALL)


def test_named_columns_reach_a_run(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("at;in;out\n0;30;5\n1500;40;6\n")
    run = simulate(tmp_path / "log.csv", columns="arrival=at:ms,prompt=in,output=out", **SMALL)
    assert run.log.requests["prompt_tokens"].tolist() == [30, 40]
    with pytest.raises(InputError, match="read already"):
        simulate(read_trace("burstgpt-sample"), columns="arrival=a,prompt=b,output=c", **SMALL)


@pytest.mark.parametrize("fast_forward", [True, False])
def test_the_same_seed_gives_the_same_run(fast_forward: bool) -> None:
    def arrivals(seed: int) -> list[float]:
        run = simulate(
            "azure-2023-code",
            first=60,
            users=4,
            think_time="exponential:2s",
            seed=seed,
            fast_forward=fast_forward,
            **SMALL,
        )
        found: list[float] = run.log.requests["arrival_s"].tolist()
        return found

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)


SESSIONS = make_workload("chat", 3, 1.0)


@pytest.mark.parametrize(
    ("trace", "options"),
    [
        (SESSIONS, {"snapshot_start": True}),
        (first(read_trace("azure-2023-conv"), 2), {"users": 2, "think_time": "exponential:1s"}),
    ],
    ids=["snapshot", "think times"],
)
def test_a_seed_below_zero_is_refused(trace: Trace, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="--seed -1: expected a whole number of 0 or more"):
        prepare(trace, **SMALL, **options, seed=-1)


def test_stamps_have_no_users() -> None:
    with pytest.raises(InputError, match="--replay stamps: users ask when they are ready"):
        prepare(SESSIONS, **SMALL, replay="stamps", users=2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, None),
        ({"request_rate": 2.0}, "--request-rate 2: sets the stamps that sessions begin at"),
        ({"request_rate": 2.0, "replay": "stamps"}, None),
        ({"concurrency": 2}, "2 sessions at a time, with their recorded pauses"),
        ({"concurrency": 2, "replay": "stamps"}, None),
        ({"users": 2, "think_time": "5s"}, "--think-time: users think before each session"),
    ],
    ids=str,
)
def test_what_turns_dont_follow_is_said(options: dict[str, Any], said: str | None) -> None:
    found = list(notes(prepare(SESSIONS, **SMALL, **options)))
    assert len(found) == (said is not None)
    assert said is None or found[0].startswith(said)


def test_stamps_at_a_rate_keep_it() -> None:
    """As the note says: at the stamps requests come at the rate; after answers they don't, as
    someone who thinks for 15 s asks no 20 times a second."""

    def rate(**options: Any) -> float:
        came = simulate(SESSIONS, **SMALL, request_rate=20.0, **options).log.requests["arrival_s"]
        return float(len(came) / (came.max() - came.min()))

    assert rate(replay="stamps") == pytest.approx(20.0)
    assert rate() < 10.0
