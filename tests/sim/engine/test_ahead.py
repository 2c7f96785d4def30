"""Planning one step ahead, step by step: when an arrival starts, when memory comes free."""

import numpy as np

from sim.cost.roofline import FixedStep
from sim.engine.ahead import serve_ahead
from sim.engine.limits import Limits, Rules
from sim.engine.loop import serve
from sim.engine.record import Log, Recorder
from sim.engine.scheduler import Scheduler
from sim.policy.manager import Pool
from sim.policy.paging import Paging
from sim.run.driver import run_simulated
from workloads.schema import Provenance, Trace


def served(
    rows: list[tuple[float, int, int]],
    *,
    ahead: bool,
    seqs: int = 8,
    slots: int = 32,
    block: int = 4,
) -> Log:
    """Every step takes a second."""
    arrival, prompt, output = zip(*rows, strict=True)
    trace = Trace(
        "t", np.array(arrival), np.array(prompt), np.array(output), Provenance("t", len(rows))
    )
    limits = Limits(seqs, 64, 32, rules=Rules(async_scheduling=ahead))
    scheduler = Scheduler(Paging(block).manager(Pool(slots, 1, 32)), limits)
    recorder = Recorder(trace, 1e3)
    loop = serve_ahead if ahead else serve
    run_simulated(loop(trace, scheduler, recorder), FixedStep(1.0, "given"))
    return recorder.log()


def run(
    rows: list[tuple[float, int, int]], *, ahead: bool, seqs: int = 8
) -> dict[str, list[float]]:
    """First and last token of each request; 8 blocks of 4."""
    requests = served(rows, ahead=ahead, seqs=seqs).requests
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


def test_who_gives_way_to_the_departing_is_told_with_the_next_step() -> None:
    """Two prompts of 3 in 10 slots, all of which both hold after two more tokens each.

    The first's third token, its last, is under way until 3 s, so that it still holds 5 slots when
    the fourth step is planned: the second gives way, and nothing is left to plan. It comes back in
    the step from 3 s on, 3 + 3 tokens long, which gives its next token after 1 s.
    """
    log = served([(0.0, 3, 3), (0.0, 3, 5)], ahead=True, slots=10, block=1)
    steps = log.steps
    assert steps["prefill_tokens"].tolist() == [6, 0, 0, 6, 0]
    assert steps["decodes"].tolist() == [0, 2, 2, 0, 1]
    assert steps["preempted"].tolist() == [0, 0, 0, 1, 0]
    assert steps["admitted"].tolist() == [2, 0, 0, 1, 0]
    assert log.requests["preemptions"].tolist() == [0, 1]
    assert log.resume_gaps_s.tolist() == [1.0]
