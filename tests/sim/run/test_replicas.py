"""Replicas behind a router: what one of them does alone, and what the router makes of a stream."""

from dataclasses import replace
from functools import cache
from math import exp, factorial
from typing import Any

import numpy as np
import pytest

from sim.run.options import RunOptions
from sim.run.replicas import simulate_replicas
from sim.run.simulation import Run, Setup, execute, prepared, start
from workloads.errors import InputError
from workloads.made import make_workload
from workloads.schema import PrefixBlocks, Provenance, Trace

RATE, SERVICE_S = 32.0, 0.1


def poisson(requests: int = 4000) -> Trace:
    """One step a request: eight tokens of prompt, one of output."""
    gaps = np.random.default_rng(5).exponential(1 / RATE, requests - 1)
    arrivals = np.concatenate([[0.0], np.cumsum(gaps)]).round(9)
    ones = np.ones(requests, dtype=np.int64)
    return Trace("poisson", arrivals, 8 * ones, ones, Provenance("drawn", requests))


def setup(trace: Trace | str, **options: Any) -> Setup:
    known = {"model": "llama-2-7b", "gpu": "a100-40gb", "cost": f"fixed:seconds={SERVICE_S}"}
    return prepared(trace, RunOptions(**{**known, **options}))


@pytest.mark.parametrize(
    ("trace", "options"),
    [
        ("azure-2023-conv", {"first": 80, "request_rate": 6.0}),
        ("azure-2023-conv", {"first": 80, "request_rate": 6.0, "engine": "vllm-0.19"}),
        ("azure-2023-conv", {"first": 60, "concurrency": 6}),
        ("coding-agents", {"first": 12, "policy": "paging+prefix", "model": "llama-3.1-8b"}),
    ],
)
def test_one_replica_is_the_engine_alone(trace: str, options: dict[str, Any]) -> None:
    """Through the router and its driver: the same tables, to the last bit."""
    alone = setup(trace, cost=None, fast_forward="concurrency" not in options, **options)
    log, _ = simulate_replicas(alone, start)
    expected = execute(replace(alone, fast_forward=alone.trace.turns is None)).log
    for ours, theirs in ((log.requests, expected.requests), (log.steps, expected.steps)):
        if ours is log.steps and alone.trace.turns is not None:
            continue  # steps one by one there; the requests' times are the same
        assert not ours["replica"].any()
        for name, column in theirs.items():
            assert np.array_equal(ours[name], column, equal_nan=True), name
    sampled = expected.timeline["time_s"]
    due = np.floor(sampled / alone.interval_s + 1e-9).astype(int)  # ours are nominal instants
    for name, column in expected.timeline.items():
        if name != "time_s":
            assert np.array_equal(log.timeline[name][due], column), name


def test_round_robin_thins_a_poisson_stream() -> None:
    """Every fourth arrival of a Poisson process of rate λ: gaps are Erlang of shape 4 and rate λ,

    F(t) = 1 - Σ_{k<4} e^(-λt) (λt)^k / k!, with mean 4 / λ and squared variation 1 / 4 (the same
    thinned at random would be Poisson, with squared variation 1). The distance of Kolmogorov and
    Smirnov stays below its 0.1 % point, 1.95 / √n, and that from an exponential law far above it.
    """
    run = execute(setup(poisson(), replicas=4, max_num_seqs=1))
    for number in range(4):
        mine = run.log.requests["replica"] == number
        gaps = np.sort(np.diff(run.log.requests["arrival_s"][mine]))
        n = len(gaps)
        assert gaps.mean() == pytest.approx(4 / RATE, rel=0.05)
        assert gaps.var() / gaps.mean() ** 2 == pytest.approx(0.25, rel=0.2)
        erlang = np.array([
            1 - sum(exp(-RATE * t) * (RATE * t) ** k / factorial(k) for k in range(4)) for t in gaps
        ])  # fmt: skip
        ranks = np.arange(n)
        exponential = 1 - np.exp(-RATE / 4 * gaps)
        near, far = (
            max((law - ranks / n).max(), ((ranks + 1) / n - law).max())
            for law in (erlang, exponential)
        )
        assert near < 1.95 / np.sqrt(n) < far / 2


def test_waiting_behind_a_router_is_lindleys() -> None:
    """A replica that serves one request at a time, 0.1 s each, is a queue of one server: the next
    one's wait is max(0, this one's + 0.1 - the gap), to the nanosecond of arrivals."""
    run = execute(setup(poisson(), replicas=4, max_num_seqs=1))
    requests = run.log.requests
    for number in range(4):
        mine = requests["replica"] == number
        wait, expected = 0.0, []
        arrivals = requests["arrival_s"][mine]
        for gap in [*np.diff(arrivals), 0.0]:
            expected.append(wait)
            wait = max(0.0, wait + SERVICE_S - gap)
        found = requests["first_token_s"][mine] - arrivals - SERVICE_S
        assert np.allclose(found, expected, atol=1e-7)
        assert found.max() > SERVICE_S  # some queue there was


@pytest.mark.parametrize("router", ["round-robin", "least-loaded"])
def test_fast_forward_changes_nothing(router: str) -> None:
    options = {"first": 60, "request_rate": 0.5, "replicas": 3, "router": router, "cost": None}
    fast = execute(setup("azure-2023-conv", **options))
    slow = execute(setup("azure-2023-conv", **options, fast_forward=False))
    for name, column in fast.log.requests.items():
        assert np.array_equal(column, slow.log.requests[name], equal_nan=True), name
    assert len(fast.log.steps["step"]) < len(slow.log.steps["step"])


def agents() -> Trace:
    return make_workload("coding-agent", requests=6, request_rate=0.3, seed=3)


@cache
def sticky(router: str) -> Run:
    return execute(
        setup(agents(), model="llama-3.1-8b", gpu="h100", policy="paging+prefix", replicas=4,
              router=router, max_model_len=131072, cost=None)
    )  # fmt: skip


def test_sticky_sessions_keep_their_hits() -> None:
    """Memory is plenty, so what a session's own turns left is all found again; dealt out in turn,
    most follow-ups come to a replica that hasn't seen the turn before."""
    kept, dealt = sticky("session"), sticky("round-robin")
    assert kept["lost_between_turns_tokens"] == 0
    lost = dealt["lost_between_turns_tokens"]
    assert lost is not None
    assert lost > 0.1 * (dealt["reusable_tokens"] or 0)
    sessions = agents().turns
    assert sessions is not None
    place = kept.log.requests["replica"]
    for session in np.unique(sessions.session):
        assert len(set(place[sessions.session == session])) == 1
    assert len(set(place)) > 1


def test_choices_repeat() -> None:
    one, two = sticky("session").log, sticky.__wrapped__("session").log
    for name, column in one.requests.items():
        assert np.array_equal(column, two.requests[name], equal_nan=True), name


def test_prefixes_go_where_they_were() -> None:
    """Two kinds of prompt in turn. With 0.15 s between them every one finds both replicas empty, so
    all go to the first; with 0.05 s the second finds it busy, and each kind stays where it went."""
    count = 10
    ids = np.array([[1, 2] if i % 2 else [3, 4] for i in range(count)], dtype=np.int64).ravel()
    blocks = PrefixBlocks(16, np.arange(0, 2 * count + 1, 2, dtype=np.int64), ids)
    ones = np.ones(count, dtype=np.int64)
    trace = Trace("kinds", np.arange(count) * 0.15, 32 * ones, ones, Provenance("x", count), blocks)
    run = execute(setup(trace, replicas=2, router="prefix", policy="paging+prefix"))
    assert run.log.requests["replica"].tolist() == [0] * 10
    busy = execute(
        setup(replace(trace, arrival_s=np.arange(count) * 0.05), replicas=2, router="prefix",
              policy="paging+prefix")
    )  # fmt: skip
    assert busy.log.requests["replica"].tolist() == [0, 1] * 5


def test_users_wait_at_whichever_replica() -> None:
    """Six users without think time over two replicas: six requests are in flight until the last
    are handed out, and memory sums to both pools."""
    run = execute(
        setup("azure-2023-conv", first=40, concurrency=6, replicas=2, router="least-loaded")
    )
    requests = run.log.requests
    assert run["finished"] == 40 - (run["truncated"] or 0) - (run["refused"] or 0)
    events = np.concatenate([requests["arrival_s"], requests["finish_s"]])
    change = np.concatenate([np.ones(40), -np.ones(40)])
    known = ~np.isnan(events)
    order = np.lexsort((change[known], events[known]))
    assert np.cumsum(change[known][order]).max() == 6
    timeline = run.log.timeline
    held = sum(timeline[f"{use}_bytes"] for use in
               ("live", "reserved", "internal", "external", "metadata", "free"))  # fmt: skip
    assert (held == 2 * run.setup.pool.capacity_bytes).all()


def test_gpus_count_replicas() -> None:
    run = execute(setup(poisson(40), replicas=4, tp=2, slo="ttft_p99=10s", price="a100-40gb=1/h"))
    assert run["goodput_per_gpu"] == pytest.approx((run["goodput"] or 0) / 8)
    assert run["cost_per_hour"] == 8
    assert 0 < (run["busy_share"] or 0) <= 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replicas": 0}, "--replicas 0: expected a whole number from 1"),
        ({"replicas": 2, "router": "session"}, "has no sessions"),
        ({"replicas": 2, "router": "prefix"}, "names no blocks"),
        ({"router": "random"}, 'router "random": expected round-robin'),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        execute(setup(poisson(5), **options))
    assert said in str(caught.value)
