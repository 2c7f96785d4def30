"""Searches: by hand, against brute force, and stopped runs that would have failed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.run.options import RunOptions
from sim.run.simulation import Run, execute, prepared
from sim.sweep.answer import answer_lines, answer_record
from sim.sweep.bisect import Ladder, best_two, highest, lowered
from sim.sweep.grid import make_grid
from sim.sweep.hopeless import Lost, execute_until_lost
from sim.sweep.question import question_of
from sim.sweep.search import Search
from workloads import read_trace
from workloads.errors import InputError
from workloads.schema import Provenance, Trace

BASE: dict[str, Any] = {"model": "llama-2-7b", "gpu": "a100-40gb"}


def steady(requests: int) -> Trace:
    """A request a second; each is one step: eight tokens of prompt, one of output."""
    ones = np.ones(requests, dtype=np.int64)
    return Trace(
        "steady", np.arange(requests, dtype=np.float64), 8 * ones, ones, Provenance("x", requests)
    )


def test_by_hand() -> None:
    """Eleven requests at equal gaps of 1/r, one at a time, a step of 0.1 s each: none waits up to
    10 a second. Beyond, request k (from 0) ends at 0.1 (k + 1) and came at k / r', so its TTFT is
    0.1 + k (0.1 - 1/r'); the last of eleven, k = 10, is slowest. `--request-rate` is requests over
    the span of arrivals, so r = 11 / (10 / r') = 1.1 r'. TTFT of all at most 0.2 s is then

        0.1 + 10 (0.1 - 1.1 / r) <= 0.2,  r <= 1.1 / 0.09 = 12.22...

    so in steps of 0.1 the answer is 12.2, and 12.3 breaks it.
    """
    base = RunOptions(**BASE, cost="fixed:seconds=0.1", max_num_seqs=1, slo="ttft_p100=0.2s")
    searched = Search(make_grid(base, {}), steady(11), question_of(resolution=0.1)).answer()
    assert searched.best is not None
    assert searched.best.worth == 12.2
    assert searched.best.row["slo_ttft_ms_p100"] == pytest.approx(100 + 1000 * (1 - 11 / 12.2))
    assert searched.best.beyond is not None
    assert not searched.best.beyond["slo_met"]


def test_users_by_hand() -> None:
    """Users without think time: the queue of one server holds all of them, so with n users a
    request waits n - 1 steps and takes one. E2E of at most 0.55 s is five users."""
    base = RunOptions(**BASE, cost="fixed:seconds=0.1", max_num_seqs=1, slo="e2e_p100=0.55s")
    searched = Search(make_grid(base, {}), steady(40), question_of("users")).answer()
    assert searched.best is not None
    assert searched.best.worth == 5


def test_replicas_by_hand() -> None:
    """At 40 requests a second and 0.1 s each, round robin over n gives a replica a gap of n / 40 s:
    nobody waits from n = 4 on. With two GPUs a replica that is 8, at $2 an hour each $16."""
    base = RunOptions(
        **BASE, cost="fixed:seconds=0.1", max_num_seqs=1, slo="ttft_p100=0.11s", request_rate=40.0,
        price="a100-40gb=2/h",
    )  # fmt: skip
    grid = make_grid(base, {"tp": [2, 1]})
    question = question_of(minimise="cost", max_gpus=16)
    searched = Search(grid, steady(400), question).answer()
    assert searched.best is not None
    assert searched.runner_up is not None
    assert (searched.best.options.replicas, searched.best.worth) == (4, -8)
    assert (searched.runner_up.options.replicas, searched.runner_up.worth) == (4, -16)
    said = "\n".join(answer_lines(searched, steady(400)))
    assert "4 × tp 1: 4 × a100-40gb, $8.00 an hour" in said
    assert "4 such servers" in said


@pytest.mark.parametrize("minimise", ["cost", "gpus"])
def test_what_does_not_fit_is_left_out_and_told(minimise: str) -> None:
    """13 G parameters of two bytes are 26 GB: more than a 24 GB GPU, and 13 on each of two. A tp of
    8 is more than the four GPUs allowed, and 40 heads can't be divided by 3."""
    base = RunOptions(
        model="llama-2-13b", gpu="l4", cost="fixed:seconds=0.1", slo="ttft_p100=1s",
        request_rate=1.0, price="l4=0.7/h",
    )  # fmt: skip
    said: list[str] = []
    question = question_of(minimise=minimise, max_gpus=4)
    grid = make_grid(base, {"tp": [1, 2, 8, 3]})
    searched = Search(grid, steady(5), question, said=said.append).answer()
    assert searched.best is not None
    assert searched.best.point == {"tp": 2}
    reasons = {one.point["tp"]: one.reason for one in searched.refused}
    assert list(reasons) == [1, 8, 3]
    assert "llama-2-13b doesn't fit" in reasons[1]
    assert "--max-gpus 4: tp is 8" in reasons[8]
    assert "divisor" in reasons[3]
    text = "\n".join(answer_lines(searched, steady(5)))
    assert "Can't be run: tp 1: llama-2-13b doesn't fit" in text
    assert any(line.startswith("tp 1, replicas 1: can't be run: llama-2-13b") for line in said)
    assert len(answer_record(searched, steady(5))["refused"]) == 3
    nothing = make_grid(base, {"tp": [1, 8]})
    with pytest.raises(InputError, match="doesn't fit"):
        Search(nothing, steady(5), question).answer()


def test_a_price_that_is_missing_is_a_slip() -> None:
    base = RunOptions(**BASE, slo="ttft_p100=1s", price="a100-40gb=2/h")
    grid = make_grid(base, {"gpu": ["a100-40gb", "h100"]})
    with pytest.raises(InputError, match="says nothing of h100"):
        Search(grid, steady(5), question_of(minimise="cost"))


def test_buffers_bind_before_their_memory_is_full() -> None:
    """A buffer for 4,096 tokens of 512 KiB is 2 GiB, so 7 GiB hold three: 6 of 7 GiB are used, and
    no fourth request finds room, though the batch could be of 64. Three at a time, a step of 0.1 s
    for each of 50 tokens, serve 0.6 a second."""
    lengths = np.full(30, 50, dtype=np.int64)
    trace = Trace("even", np.arange(30.0), lengths, lengths, Provenance("x", 30))
    base = RunOptions(
        **BASE, cost="fixed:seconds=0.1", slo="ttft_p100=30s", kv_cache_memory="7GiB",
        policy="preallocation", max_num_seqs=64,
    )  # fmt: skip
    searched = Search(make_grid(base, {}), trace, question_of(resolution=0.1)).answer()
    assert searched.best is not None
    assert searched.best.row["running_peak"] == 3
    text = "\n".join(answer_lines(searched, trace))
    assert "What binds: KV memory: 86 % of it at the peak, too little left for one more" in text


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(-1, 30), min_size=1, max_size=12),
    st.booleans(),
)
def test_best_two_are_those_of_brute_force(tops: list[int], bounded: bool) -> None:
    """Whatever each configuration's highest rung is (-1: none), of equal ones the first."""
    asked: set[tuple[int, int]] = set()

    def holds(name: int, rung: int) -> bool:
        assert (name, rung) not in asked or not bounded
        asked.add((name, rung))
        return rung <= tops[name]

    last = 30 if bounded else None
    ladders = [Ladder(n, last, lambda worth: int(worth) + 1, float) for n in range(len(tops))]

    def climb(name: int, first: int, last: int | None) -> int:
        return highest(partial(holds, name), first, last)

    found = [None if top is None else (top.name, top.rung) for top in best_two(ladders, climb)]
    ranked = sorted(((n, top) for n, top in enumerate(tops) if top >= 0), key=lambda pair: -pair[1])
    assert found == ([*ranked, None, None])[:2]


@given(st.integers(0, 1000) | st.just(0), st.integers(0, 1000))
def test_a_bisection_asks_few(first: int, top: int) -> None:
    asked = []

    def holds(rung: int) -> bool:
        asked.append(rung)
        return rung <= top

    assert highest(holds, first, 1000) == max(top, first - 1)
    assert len(asked) <= 1 + 10
    asked.clear()
    if first <= 1000:
        assert lowered(holds, first, 1000) == max(min(top, 1000), first - 1)
    assert len(asked) <= 2 * 10


def test_every_draw_holds_and_one_breaks_the_next() -> None:
    """As brute force over all rungs and draws has it, with fewer runs."""
    base = RunOptions(**BASE, arrivals="poisson", slo="ttft_p90=0.4s", kv_cache_memory="8GiB")
    grid = make_grid(base, {"max_num_seqs": [16, 2, 8]})
    question = question_of("request_rate=1:12", 1.0, draws=4)
    trace = random_trace(3)
    search, brute = (Search(grid, trace, question) for _ in range(2))
    searched = search.answer()
    tops = []
    for number, seqs in enumerate((16, 2, 8)):
        rungs = [rung for rung in range(12) if brute.holds(number, rung)]
        assert rungs == list(range(len(rungs)))
        tops.append((len(rungs), seqs))
    (one, two), *_ = [sorted(tops, key=lambda pair: -pair[0])[:2]]
    assert searched.best is not None
    assert searched.runner_up is not None
    assert (searched.best.worth, searched.best.point["max_num_seqs"]) == one
    assert (searched.runner_up.worth, searched.runner_up.point["max_num_seqs"]) == two
    assert len(search.rows) < len(brute.rows)


def random_trace(seed: int) -> Trace:
    rng = np.random.default_rng(seed)
    count = 60
    arrivals = np.concatenate([[0.0], np.cumsum(rng.exponential(0.3, count - 1))])
    prompts = rng.integers(1, 1500, count)
    outputs = rng.integers(1, 200, count)
    return Trace("random", arrivals, prompts, outputs, Provenance("drawn", count))


@pytest.mark.parametrize("slo", ["ttft_p90=1s", "tpot_p50=12ms", "e2e_p50=2.5s", "ttft_p99=9s"])
@pytest.mark.parametrize("engine", ["default", "vllm-0.19"])
def test_a_stopped_run_would_have_failed(slo: str, engine: str) -> None:
    """And a run that isn't stopped is the whole run."""
    stopped = 0
    for seed in range(6):
        options = RunOptions(
            **BASE, engine=engine, slo=slo, kv_cache_memory="2GiB", max_num_seqs=4 + 20 * seed,
            request_rate=1.0 + seed,
        )  # fmt: skip
        setup = prepared(random_trace(seed), options)
        found = execute_until_lost(setup)
        whole = execute(setup)
        if isinstance(found, Lost):
            stopped += 1
            assert not whole["slo_met"]
            assert found.at_s <= whole.log.end_s
        else:
            assert found.metrics_list == whole.metrics_list
    assert stopped or slo == "ttft_p99=9s" or (engine != "default" and "ttft" not in slo)


def test_a_hopeless_run_is_stopped_early() -> None:
    """Ten times the load that is served: the queue only grows, and 1 % of the requests are late
    before a tenth of the whole run has passed."""
    options = RunOptions(**BASE, first=1500, request_rate=40.0, slo="ttft_p99=2s")
    setup = prepared("azure-2023-conv", options)
    found = execute_until_lost(setup)
    assert isinstance(found, Lost)
    whole = execute(setup)
    assert isinstance(whole, Run)
    assert found.at_s < whole.log.end_s / 10


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: question_of("rate"), "--over rate: expected one of"),
        (lambda: question_of("request_rate=3"), "expected LOAD=FROM:TO"),
        (lambda: question_of("request_rate=3:1"), "expected 0 < FROM <= TO"),
        (lambda: question_of("users", 0.5), "users are whole numbers"),
        (lambda: question_of(minimise="time"), "expected gpus or cost"),
        (lambda: question_of(draws=0), "--draws 0"),
    ],
)
def test_no_question(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        ask()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "question", "said"),
    [
        ({}, {}, "--slo: missing"),
        ({"slo": "ttft_p99=1s"}, {"draws": 2}, "expected --arrivals to draw"),
        ({"slo": "ttft_p99=1s"}, {"minimise": "cost"}, "expected prices"),
    ],
)
def test_no_search(options: dict[str, Any], question: dict[str, Any], said: str) -> None:
    grid, asked = make_grid(RunOptions(**BASE, **options), {}), question_of(**question)
    with pytest.raises(InputError) as caught:
        Search(grid, steady(3), asked)
    assert said in str(caught.value)


def test_an_answer_in_words_and_as_a_record() -> None:
    base = RunOptions(**BASE, first=60, slo="ttft_p90=1s,tpot_p50=50ms", policy="paging+prefix",
                      kv_cache_dtype="fp8")  # fmt: skip
    trace = read_trace("azure-2023-conv")
    grid = make_grid(base, {"max_num_seqs": [4, 64]})
    searched = Search(grid, trace, question_of(resolution=1.0)).answer()
    lines = list(answer_lines(searched, trace))
    text = "\n".join(lines)
    assert "vllm serve meta-llama/Llama-2-7b-hf --tensor-parallel-size 1 --max-num-seqs 64" in text
    assert "--kv-cache-dtype fp8 --enable-prefix-caching" in text
    assert "--kv-cache-dtype fp8_e4m3" in text
    assert "What binds: " in text
    assert "from breaking" in text
    assert "Runner-up: " in text
    record = answer_record(searched, trace)
    assert record["best"]["worth"] > record["runner_up"]["worth"]
    impossible = Search(
        make_grid(RunOptions(**BASE, first=60, slo="ttft_p90=1ms"), {}), trace,
        question_of(resolution=1.0),
    ).answer()  # fmt: skip
    assert impossible.best is None
    assert "No configuration meets the level" in next(answer_lines(impossible, trace))


def test_a_level_that_holds_with_all_at_once_has_no_limit() -> None:
    """Eight requests in one batch of eight: one step of 0.1 s whatever the rate, and never more
    than 8 / 1 ms = 8,000 requests/s are tried; eight users are as many as ever ask."""
    base = RunOptions(**BASE, cost="fixed:seconds=0.1", max_num_seqs=8, slo="ttft_p100=2s")
    searched = Search(make_grid(base, {}), steady(8), question_of(resolution=1)).answer()
    assert searched.best is not None
    assert (searched.best.worth, searched.best.at_once) == (8000, 8)
    assert len(searched.rows) <= 15
    text = "\n".join(answer_lines(searched, steady(8)))
    assert "No limit found on 1 × a100-40gb: ttft_p100=2s holds with all 8 requests at once" in text
    assert "What binds: nothing but the level itself" in text
    record = answer_record(searched, steady(8))["best"]
    assert (record["limit_found"], record["worth"]) == (False, None)
    users = Search(make_grid(base, {}), steady(8), question_of("users")).answer()
    assert users.best is not None
    assert (users.best.worth, users.best.at_once) == (8, 8)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_a_climb_ends_at_its_ceiling(first: int, top: int, ceiling: int) -> None:
    def holds(rung: int) -> bool:
        assert rung <= ceiling
        return rung <= top

    assert highest(holds, first, None, ceiling) == max(min(top, ceiling), first - 1)


def test_a_trace_too_short_is_said_to_be() -> None:
    """One server of 0.1 s a request bears 10 a second. At 20 a second for 4.95 s (100 requests,
    gaps of 0.05 s) half of them wait as the last one comes. At 5 a second none ever does."""
    base = RunOptions(**BASE, cost="fixed:seconds=0.1", max_num_seqs=1, slo="ttft_p100=60s")
    over = Search(make_grid(base, {}), steady(100), question_of("request_rate=20:20", 1)).answer()
    under = Search(make_grid(base, {}), steady(100), question_of("request_rate=5:5", 1)).answer()
    warned = [line for line in answer_lines(over, steady(100)) if "warning: " in line]
    assert len(warned) == 1
    assert "queue still grows" in warned[0]
    assert "warning: " not in "\n".join(answer_lines(under, steady(100)))
    assert any("Goodput: " in line for line in answer_lines(under, steady(100)))


@pytest.mark.parametrize("lossy", [{"policy": "paging+fp8"}, {"kv_cache_dtype": "fp8"}])
def test_a_winner_that_changes_answers_says_so(lossy: dict[str, str]) -> None:
    """8 bits hold twice the tokens, and here memory binds; 16 bits are the best without loss. A
    request of 64 + 64 tokens takes 64 MiB of Llama 2's 512 KiB a token: 8 at once fit 512 MiB."""
    count = 64
    lengths = np.full(count, 64, dtype=np.int64)
    trace = Trace(
        "same", np.arange(count, dtype=np.float64), lengths, lengths, Provenance("x", count)
    )
    base = RunOptions(
        **BASE, cost="fixed:seconds=0.01", kv_cache_memory="512MiB", slo="e2e_p100=1s"
    )
    name, value = next(iter(lossy.items()))
    exact = "paging" if name == "policy" else "auto"
    searched = Search(
        make_grid(base, {name: [exact, value]}), trace, question_of(resolution=1)
    ).answer()
    text = "\n".join(answer_lines(searched, trace))
    assert searched.best is not None
    assert searched.lossless is not None
    assert searched.best.point[name] == value
    assert searched.lossless.point[name] == exact
    assert "changes the model's answers: rounds keys and values to 8 bits" in text
    assert ("paging with KV in fp8 changes" in text) == ("kv_cache_dtype" in lossy)
    assert "Best that doesn't: " in text
    assert searched.best.worth > searched.lossless.worth
