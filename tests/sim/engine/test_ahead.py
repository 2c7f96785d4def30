"""Planning one step ahead, step by step: when an arrival starts, when memory comes free."""

import numpy as np

from sim.cost.roofline import FixedStep
from sim.engine.ahead import serve_ahead
from sim.engine.limits import Limits, Rules
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.policy.manager import Pool
from sim.policy.paging import Paging
from sim.run.driver import run_simulated
from workloads.schema import Provenance, Trace


def run(
    rows: list[tuple[float, int, int]], *, ahead: bool, seqs: int = 8
) -> dict[str, list[float]]:
    """First and last token of each request where every step takes a second; 8 blocks of 4."""
    arrival, prompt, output = zip(*rows, strict=True)
    trace = Trace(
        "t", np.array(arrival), np.array(prompt), np.array(output), Provenance("t", len(rows))
    )
    limits = Limits(seqs, 64, 32, rules=Rules(async_scheduling=ahead))
    scheduler = Scheduler(Paging(4).manager(Pool(32, 1, 32)), limits)
    recorder = Recorder(trace, 1e3)
    loop = serve_ahead if ahead else serve
    run_simulated(loop(trace, scheduler, recorder), FixedStep(1.0, "given"))
    requests = recorder.log().requests
    return {name: requests[name].tolist() for name in ("first_token_s", "finish_s")}


def test_a_lone_request_takes_no_longer() -> None:
    assert run([(0.0, 4, 5)], ahead=True) == run([(0.0, 4, 5)], ahead=False)


def test_an_arrival_runs_in_the_step_after_the_next() -> None:
    """It comes during the third step, is seen at 3 s, when the fourth is already planned."""
    rows = [(0.0, 4, 8), (2.5, 4, 1)]
    assert run(rows, ahead=False)["first_token_s"] == [1.0, 4.0]
    assert run(rows, ahead=True)["first_token_s"] == [1.0, 5.0]


def test_a_place_comes_free_a_step_later() -> None:
    """One place: the first's last token comes at 2 s, when the third step had to be planned."""
    rows = [(0.0, 4, 2), (0.0, 4, 1)]
    assert run(rows, ahead=False, seqs=1)["first_token_s"] == [1.0, 3.0]
    assert run(rows, ahead=True, seqs=1)["first_token_s"] == [1.0, 3.0]  # nothing else to run
    rows = [(0.0, 4, 2), (0.0, 4, 9), (0.0, 4, 1)]
    assert run(rows, ahead=False, seqs=2)["first_token_s"][2] == 3.0
    assert run(rows, ahead=True, seqs=2)["first_token_s"][2] == 4.0
