"""Closed loops and sessions against arithmetic: whoever waits for an answer asks after it."""

from collections.abc import Mapping
from math import factorial

import numpy as np
import pytest

from sim.cost.roofline import FixedStep
from sim.engine.ahead import serve_ahead
from sim.engine.closed_loop import ClosedLoop
from sim.engine.limits import Limits, Rules
from sim.engine.loop import serve
from sim.engine.record import REFUSED, UNFINISHED, Column, Recorder
from sim.engine.scheduler import Scheduler
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.run.driver import run_simulated
from workloads.schema import Provenance, Trace, Turns

POOL = Pool(4000, 1, 1000)  # 4,000 tokens; contexts of up to 1,000
STEP_S = 1.0


def made(
    arrivals: list[float], prompts: list[int], outputs: list[int], turns: Turns | None = None
) -> Trace:
    return Trace(
        "made",
        np.array(arrivals, dtype=np.float64),
        np.array(prompts, dtype=np.int64),
        np.array(outputs, dtype=np.int64),
        Provenance("made", len(arrivals)),
        turns=turns,
    )


def served(
    trace: Trace,
    closed: ClosedLoop | None = None,
    seqs: int = 8,
    step_s: float = STEP_S,
    fast_forward: bool = True,
    ahead: bool = False,
    horizon_s: int | None = None,
) -> Mapping[str, Column]:
    """The requests' table where every step takes `step_s`, whatever it computes."""
    limits = Limits(seqs, 1000, 1000, rules=Rules(async_scheduling=ahead))
    scheduler = Scheduler(parse_policy("paging:block_size=1").manager(POOL), limits)
    recorder = Recorder(trace, 1e6)
    horizon = None if horizon_s is None else horizon_s * 10**18
    loop = serve_ahead if ahead else serve
    effects = loop(trace, scheduler, recorder, horizon, closed)
    run_simulated(effects, FixedStep(step_s, "given"), fast_forward)
    return recorder.log().requests


def in_flight(requests: Mapping[str, Column]) -> int:
    """The most requests asked and not answered at any instant; answers go before questions."""
    instants = [(at, 1) for at in requests["arrival_s"]] + [(at, -1) for at in requests["finish_s"]]
    return int(np.cumsum([change for _, change in sorted(instants)]).max())


# -- users -------------------------------------------------------------------------------------


def test_one_user_waits_thinks_and_asks_again() -> None:
    """A request of n outputs takes n steps. Asked at 2 (thinks first), answered at 5; 7 to 8; 10
    to 14. The stamps of the trace say nothing."""
    trace = made([0, 0, 50], [10, 10, 10], [3, 1, 4])
    requests = served(trace, ClosedLoop(1, think_s=2))
    assert requests["arrival_s"].tolist() == [2, 7, 10]
    assert requests["first_token_s"].tolist() == [3, 8, 11]
    assert requests["finish_s"].tolist() == [5, 8, 14]


def test_a_fixed_number_in_flight() -> None:
    """Two in flight: outputs 3 and 5 begin at 0; the third follows the first at 3, a step with its
    prompt beside the other's decode; the fourth follows the second at 5."""
    trace = made([0] * 4, [10] * 4, [3, 5, 4, 2])
    requests = served(trace, ClosedLoop(2))
    assert requests["arrival_s"].tolist() == [0, 0, 3, 5]
    assert requests["finish_s"].tolist() == [3, 5, 7, 7]


def test_a_cap_on_concurrency_holds_back_stamped_requests() -> None:
    """`paced`: nobody asks before the stamp, nor while two are in flight."""
    trace = made([0, 1, 2, 20], [10] * 4, [6, 6, 1, 1])
    requests = served(trace, ClosedLoop(2, paced=True))
    assert requests["arrival_s"].tolist() == [0, 1, 6, 20]


def test_a_refused_request_is_an_answer() -> None:
    """A prompt beyond the longest context: its user thinks and goes on with the next row."""
    trace = made([0, 0], [5000, 10], [1, 2])
    requests = served(trace, ClosedLoop(1, think_s=3))
    assert requests["status"].tolist()[0] == REFUSED
    assert requests["arrival_s"].tolist() == [3, 6]
    assert requests["finish_s"].tolist()[1] == 8


def test_at_the_horizon_what_was_never_asked_has_no_arrival() -> None:
    requests = served(made([0] * 3, [10] * 3, [4] * 3), ClosedLoop(1), horizon_s=6)
    assert requests["arrival_s"].tolist()[:2] == [0, 4]
    assert np.isnan(requests["arrival_s"][2])
    assert requests["status"].tolist()[1:] == [UNFINISHED, UNFINISHED]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("users", [1, 3, 16])
def test_never_more_in_flight_than_users_and_as_single_steps(users: int, ahead: bool) -> None:
    draw = np.random.default_rng(users)
    rows = 120
    trace = made(
        [0.0] * rows, draw.integers(1, 90, rows).tolist(), draw.integers(1, 60, rows).tolist()
    )
    closed = ClosedLoop(users, think_s=2.5, exponential=True, seed=4)
    quick = served(trace, closed, seqs=4, ahead=ahead)
    assert in_flight(quick) == users  # and as many at some time: nobody idles for long
    slow = served(trace, closed, seqs=4, fast_forward=False, ahead=ahead)
    for name, column in quick.items():
        assert column.tolist() == slow[name].tolist(), name


@pytest.mark.parametrize("users", [2, 5, 10])
def test_the_machine_repairman(users: int) -> None:
    """One server, exponential service S and thinking Z, N users: P(idle) = 1 / Σ N!/(N−n)! (S/Z)^n,
    throughput X = (1 − P(idle)) / S, mean response R = N/X − Z (e.g. Lazowska et al., 1984, 6.2).

    Service: a geometric number of steps with mean 500, whose law differs from the exponential by
    one part in 500.
    """
    n, mean, think_s = 40_000, 500, 1000.0
    outputs = np.random.default_rng(5).geometric(1 / mean, n)
    trace = made([0.0] * n, [1] * n, outputs.tolist())
    wide = Limits(1, 1, 10**6)
    manager = parse_policy("paging:block_size=1").manager(Pool(10**6, 1, 10**6))
    recorder = Recorder(trace, 1e9)
    closed = ClosedLoop(users, think_s=think_s, exponential=True, seed=3)
    run_simulated(serve(trace, Scheduler(manager, wide), recorder, None, closed), FixedStep(1, ""))
    log = recorder.log()
    service_s = float(outputs.mean())
    load = service_s / think_s
    idle = 1 / sum(factorial(users) / factorial(users - k) * load**k for k in range(users + 1))
    throughput = (1 - idle) / service_s
    response = (log.requests["finish_s"] - log.requests["arrival_s"]).mean()
    busy = (log.steps["end_s"] - log.steps["start_s"]).sum() / log.end_s
    assert busy == pytest.approx(1 - idle, rel=0.02)
    assert response == pytest.approx(users / throughput - think_s, rel=0.02)


# -- sessions ----------------------------------------------------------------------------------


def turns(sessions: list[int], waits: list[list[int]], delays: list[float]) -> Turns:
    counts = np.cumsum([0, *map(len, waits)])
    turn = [sessions[:row].count(session) for row, session in enumerate(sessions)]
    return Turns(
        np.array(sessions),
        np.array(turn),
        counts,
        np.array([row for rows in waits for row in rows], dtype=np.int64),
        np.array(delays, dtype=np.float64),
    )


def test_three_sessions_by_hand() -> None:
    """A (rows 0, 3, 5) thinks 2 s between turns. B (1, 4) has a tool that takes 1 s. C (2)
    is alone. Steps of 1 s; one request at a time, so that who waits is plain:

    row 0 (A, 3 outputs) comes at 0, runs 0 to 3; A asks again at 5.
    row 1 (B, 2) comes at 1, runs 3 to 5; B asks again at 6.
    row 2 (C, 4) comes at 2, runs 5 to 9.
    row 3 (A, 1) came at 5, runs 9 to 10; A asks again at 12.
    row 4 (B, 2) came at 6, runs 10 to 12.
    row 5 (A, 1) comes at 12, runs 12 to 13.
    """
    follows = turns([0, 1, 2, 0, 1, 0], [[], [], [], [0], [1], [3]], [0, 0, 0, 2, 1, 2])
    # the recorded stamps of later turns (7, 8, 9) are those of a quicker server: not used
    trace = made([0, 1, 2, 7, 8, 9], [10] * 6, [3, 2, 4, 1, 2, 1], follows)
    for fast_forward in (True, False):
        requests = served(trace, seqs=1, fast_forward=fast_forward)
        assert requests["arrival_s"].tolist() == [0, 1, 2, 5, 6, 12]
        assert requests["first_scheduled_s"].tolist() == [0, 3, 5, 9, 10, 12]
        assert requests["finish_s"].tolist() == [3, 5, 9, 10, 12, 13]


def test_a_parent_joins_its_sub_agents_but_not_one_that_outlives_its_turn() -> None:
    """Row 0 ends at 2. Two sub-agents: row 1 after 1 s (3 to 5), row 2 after 2 s (4 to 14, ten
    outputs). Row 3 joins row 1 alone, 4 s after it: 9, while row 2 still runs. Row 4 joins both
    row 3 (answered at 10) and row 2 (14): with 1 s it is asked at 15."""
    follows = turns([0] * 5, [[], [0], [0], [0, 1], [2, 3]], [0, 1, 2, 4, 1])
    requests = served(made([0, 3, 4, 9, 15], [10] * 5, [2, 2, 10, 1, 1], follows))
    assert requests["arrival_s"].tolist() == [0, 3, 4, 9, 15]
    assert requests["finish_s"].tolist() == [2, 5, 14, 10, 16]


def test_think_times_are_kept_when_the_server_is_slow() -> None:
    follows = turns([0, 0, 0], [[], [0], [1]], [0, 7, 9])
    for step_s in (0.5, 4.0):
        requests = served(made([0, 8, 18], [10] * 3, [3, 3, 3], follows), step_s=step_s)
        asked, answered = requests["arrival_s"], requests["finish_s"]
        assert (asked[1:] - answered[:-1]).tolist() == [7, 9]


def test_a_refused_turn_does_not_end_the_session() -> None:
    follows = turns([0, 0], [[], [0]], [0, 3])
    requests = served(made([0, 4], [5000, 10], [1, 1], follows))
    assert requests["arrival_s"].tolist() == [0, 3]
    assert requests["finish_s"].tolist()[1] == 4


def test_users_take_whole_sessions() -> None:
    """One user, session A (rows 0, 2; a second of thinking inside), then B (1), 5 s after A ends:
    A is asked at 5, answered at 7; at 8, answered at 9; B begins at 14."""
    follows = turns([0, 1, 0], [[], [], [0]], [0, 0, 1])
    trace = made([0, 0, 3], [10] * 3, [2, 1, 1], follows)
    requests = served(trace, ClosedLoop(1, think_s=5))
    assert requests["arrival_s"].tolist() == [5, 14, 8]
    assert requests["finish_s"].tolist() == [7, 15, 9]


def test_what_waits_for_nobody_keeps_its_place_in_a_session() -> None:
    """Row 1 of session A came 4 s after row 0, whatever became of that; row 2 is session B's."""
    follows = turns([0, 0, 1], [[], [], []], [0, 0, 0])
    requests = served(made([2, 6, 7], [10] * 3, [1, 1, 1], follows), ClosedLoop(1))
    assert requests["arrival_s"].tolist() == [0, 4, 5]
