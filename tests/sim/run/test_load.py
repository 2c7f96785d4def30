"""Who asks, from options: what is refused, and what a run makes of it."""

from pathlib import Path

import numpy as np
import pytest

from sim.engine.closed_loop import ClosedLoop
from sim.run.load import closed_loop, parse_think_time
from sim.run.options import RunOptions
from sim.run.simulation import simulate
from workloads import read_trace
from workloads.errors import InputError
from workloads.made import make_workload

SMALL = {"model": "llama-3-8b", "gpu": "a100-80gb", "policy": "paging"}


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
