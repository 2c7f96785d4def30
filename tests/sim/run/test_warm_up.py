"""What a warm-up leaves out, worked out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from reports.latency import time_to_first_token
from reports.load import load_runs
from reports.sections import warm_up as said
from reports.service import service
from sim.cost.roofline import FixedStep
from sim.engine.limits import Limits
from sim.engine.loop import serve
from sim.engine.record import Log, Recorder
from sim.engine.scheduler import Scheduler
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.run.driver import run_simulated
from sim.run.folder import write_run
from sim.run.metrics import compute_metrics
from sim.run.simulation import simulate
from sim.run.warm_up import counted, parse_warm_up
from workloads.errors import InputError
from workloads.schema import Provenance, Trace

POOL = Pool(4000, 1, 1000)


def log(fast_forward: bool = True) -> Log:
    """Steps of 1 s, whatever they compute. Row 0 (8 outputs) runs from 0 to 8; row 1 (2) comes at
    2.5 and is taken up at 3, running to 5; row 2 (3) comes at 12 and runs to 15."""
    trace = Trace(
        "made",
        np.array([0.0, 2.5, 12.0]),
        np.array([10, 20, 30]),
        np.array([8, 2, 3]),
        Provenance("made", 3),
    )
    manager = parse_policy("paging:block_size=1").manager(POOL)
    recorder = Recorder(trace, 1e6)
    effects = serve(trace, Scheduler(manager, Limits(8, 1000, 1000)), recorder)
    run_simulated(effects, FixedStep(1.0, "given"), fast_forward)
    return recorder.log()


def numbers(since_s: float, fast_forward: bool = True) -> dict[str, int | float | None]:
    rows = compute_metrics(counted(log(fast_forward), since_s), POOL.capacity_bytes)
    return {row.name: row.value for row in rows}


def test_nothing_is_left_out_of_a_run_without_warm_up() -> None:
    rows = numbers(0.0)
    assert rows["requests"] == 3
    assert rows["steps"] == 11
    assert rows["makespan_s"] == 15


@pytest.mark.parametrize("fast_forward", [True, False])
@pytest.mark.parametrize("asked", ["1", "1s", "2.5s"])
def test_by_hand(asked: str, fast_forward: bool) -> None:
    """Row 0 is left out, by number or by time: the first that counts comes at 2.5 s.

    Of the steps (0 to 1, ..., 7 to 8, 12 to 13, 13 to 14, 14 to 15) those from 3 s on count: 8,
    three of them with nothing but row 0's decode. TTFT of row 1 is 4 - 2.5, of row 2 13 - 12.
    Gaps between tokens: row 0's from 3 to 8 (five), row 1's one, row 2's two: all 1 s. Tokens: 5,
    in 12.5 s.
    """
    assert log(fast_forward).requests["arrival_s"].tolist() == [0, 2.5, 12]
    assert end_s(asked) == 2.5
    rows = numbers(2.5, fast_forward)
    assert rows["requests"] == rows["finished"] == 2
    assert rows["steps"] == 8
    assert rows["prefill_tokens"] == 50
    assert rows["decode_tokens"] == 5 + 1 + 2
    assert rows["makespan_s"] == 12.5
    assert rows["busy_share"] == pytest.approx(100 * 8 / 12.5)
    assert rows["output_throughput"] == pytest.approx(5 / 12.5)
    assert rows["ttft_ms_mean"] == pytest.approx(1250)
    assert rows["e2el_ms_mean"] == pytest.approx((2500 + 3000) / 2)
    assert rows["itl_ms_mean"] == rows["itl_ms_p99"] == pytest.approx(1000)


@pytest.mark.parametrize("fast_forward", [True, False])
def test_an_event_is_cut_between_its_steps(fast_forward: bool) -> None:
    """From 12 s on there is one event of a prefill and one of two decodes; a warm-up that ends at
    13.5 s would leave the step from 14 s on. (No request arrives then: `counted` alone is asked.)
    """
    kept = counted(log(fast_forward), 13.5).steps
    assert kept["start_s"].tolist() == [14.0]
    assert kept["end_s"].tolist() == [15.0]
    assert kept["steps"].tolist() == [1]
    assert kept["step"].tolist() == [10]


def test_requests_in_order_of_arrival_and_those_who_never_came() -> None:
    """In a closed loop rows are asked in any order: 1, 3, 5 s; the fourth never."""
    arrival_s = np.array([5.0, 1.0, np.nan, 3.0])
    for asked, end_s in (("0", 1.0), ("2", 5.0), ("3s", 3.0), ("3.001s", 5.0), ("0s", 1.0)):
        warm_up = parse_warm_up(asked)
        assert warm_up is not None
        assert warm_up.end_s(arrival_s) == end_s


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("3", "--warm-up 3: 3 requests arrive, the last after 12 s; expected some to count"),
        ("13s", "--warm-up 13s: 3 requests arrive, the last after 12 s; expected some to count"),
        ("-1", "--warm-up=-1: expected a number and a unit of ns, us, ms, s"),
        ("5 min", "--warm-up=5 min: expected a number and a unit of ns, us, ms, s"),
        ("9" * 30, "--warm-up 99999999999999999999: expected fewer requests"),
    ],
)
def test_what_can_not_be(asked: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        end_s(asked)
    assert str(caught.value) == message


def end_s(asked: str) -> float:
    warm_up = parse_warm_up(asked)
    assert warm_up is not None
    return warm_up.end_s(np.array([0.0, 2.5, 12.0]))


@pytest.mark.parametrize("asked", [2, np.int32(2)])
def test_a_number_of_requests_is_one_as_in_text(asked: int) -> None:
    """Of three requests two are left out."""
    trace = Trace(
        "made", np.array([0.0, 2.5, 12.0]), np.full(3, 10), np.full(3, 2), Provenance("made", 3)
    )
    given = {"model": "llama-3-8b", "gpu": "a100-80gb"}
    runs = [simulate(trace, warm_up=one, **given) for one in (asked, "2")]  # type: ignore[arg-type]
    counts = [{m.name: m.value for m in run.metrics_list}["requests"] for run in runs]
    assert counts == [1, 1]
    assert runs[0].setup.warm_up == runs[1].setup.warm_up


def test_shown_in_the_run_and_its_report(tmp_path: Path) -> None:
    run = simulate(
        "azure-2023-code", first=400, warm_up="100s", model="llama-3-8b", gpu="a100-80gb"
    )
    (tmp_path / "run").mkdir()
    write_run(run, tmp_path / "run", "test")
    arrival_s = run.log.requests["arrival_s"]
    left_out = int((arrival_s < 100).sum())
    end_s = float(arrival_s[left_out])
    content = json.loads((tmp_path / "run" / "run.json").read_text())
    assert content["warm_up"] == {"asked": "100s", "end_s": end_s, "requests": left_out}
    (loaded,) = load_runs([tmp_path])
    assert time_to_first_token(loaded).of == 400 - left_out == loaded.value("requests")
    assert f"leave out {left_out} requests that arrived in the first {end_s:,.6g} s" in said(loaded)
    assert all(row["formula"].endswith("; without the warm-up") for row in content["metrics"])
    # offered over the window that served is counted in: from the first request that counts on
    span_s = float(arrival_s[-1]) - end_s
    assert service(loaded).offered == pytest.approx((400 - left_out) / span_s)
    assert service(loaded).served == loaded.value("request_throughput")
