"""Laws of one run: what its tables say of each other, whatever was asked of it."""

from itertools import pairwise

import numpy as np

from sim.engine.record import FINISHED, REFUSED, TRUNCATED, UNFINISHED, USES
from sim.plan import AS_PER_S
from tests.sim.histories.made import Outcome

CLOSE = 1e-9  # seconds


def requests_have_one_end(out: Outcome) -> None:
    """In = finished + truncated + refused + unfinished, told by lengths alone."""
    r, h = out.log.requests, out.history
    longest = min(h.limits.max_model_len, out.manager.longest() + 1)
    room = longest - r["prompt_tokens"]
    asked = ~np.isnan(r["arrival_s"])
    known = (r["status"] != UNFINISHED) & asked
    expected = np.where(
        room <= 0, REFUSED, np.where(r["output_tokens"] > room, TRUNCATED, FINISHED)
    )
    assert (r["status"] == expected)[known].all()
    got = np.minimum(r["output_tokens"], np.maximum(room, 0))
    done = np.isin(r["status"], (FINISHED, TRUNCATED))
    assert (r["generated_tokens"] == got)[done].all()
    assert (r["generated_tokens"] <= got).all()
    assert (done == ~np.isnan(r["finish_s"])).all()
    if h.horizon_s is None:
        assert known.all(), "without a horizon everyone leaves"
    refused = r["status"] == REFUSED
    for name in ("first_scheduled_s", "first_token_s", "finish_s"):
        assert np.isnan(r[name][refused]).all()
    assert (r["generated_tokens"] > 0)[refused].sum() == 0


def times_are_in_order(out: Outcome) -> None:
    """Arrival, admission, first token, last; a token later at least than the one before."""
    r = out.log.requests
    order = [r[n] for n in ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")]
    for before, after in pairwise(order):
        both = ~np.isnan(before) & ~np.isnan(after)
        assert (before[both] <= after[both]).all()
        assert not (np.isnan(before) & ~np.isnan(after)).any()
    assert (np.diff(out.log.steps["start_s"]) > 0).all()
    assert (out.log.steps["end_s"][:-1] <= out.log.steps["start_s"][1:]).all()


def nobody_is_passed_over(out: Outcome) -> None:
    """First come, first served."""
    r = out.log.requests
    order = np.argsort(r["arrival_s"], kind="stable")
    admitted = r["first_scheduled_s"][order][r["status"][order] != REFUSED]
    begun = admitted[~np.isnan(admitted)]
    assert (np.diff(begun) >= 0).all()
    assert not np.isnan(admitted[: len(begun)]).any()


def tokens_are_those_of_the_steps(out: Outcome) -> None:
    """Tokens = decoded + contexts completed, first ones and those of who came back."""
    s, r = out.log.steps, out.log.requests
    decoded = int((s["decodes"] * s["steps"]).sum())
    completed = int((~np.isnan(r["first_token_s"])).sum()) + len(out.log.resume_gaps_s)
    assert int(r["generated_tokens"].sum()) == decoded + completed


def prefills_are_prompts_and_what_was_lost(out: Outcome) -> None:
    """Prefilled = prompts - found + recomputed, and the last token of who came back.

    That token was sampled but its KV never written. With shared prefixes a request may come back to
    more than it lost.
    """
    if out.history.horizon_s is not None:
        return
    r = out.log.requests
    served = ~np.isnan(r["first_scheduled_s"])
    computed = r["prompt_tokens"] - r["cached_tokens"] + r["recomputed_tokens"]
    expected = int(computed[served].sum()) + len(out.log.resume_gaps_s)
    prefilled = int(out.log.steps["prefill_tokens"].sum())
    if "prefix" in out.history.policy:
        assert prefilled <= expected
    else:
        assert prefilled == expected
        assert not r["cached_tokens"].any()


def bytes_have_one_use(out: Outcome) -> None:
    """Six uses sum to the pool in every row; what is cached is free."""
    for table in (out.log.steps, out.log.timeline):
        columns = [table[name] for name in USES[:-1]]
        assert all((column >= 0).all() for column in columns)
        assert (sum(columns) == out.history.pool.capacity_bytes).all()
        assert (table[USES[-1]] <= table["free_bytes"]).all()


def an_empty_pool_is_free(out: Outcome) -> None:
    """Who left holds nothing; nothing is reserved, internal or live where nobody runs."""
    t = out.log.timeline
    if out.history.engine == "in step":
        idle = (t["running"] == 0) & (t["waiting"] == 0)
        for name in ("live_bytes", "reserved_bytes", "internal_bytes", "metadata_bytes"):
            assert not t[name][idle].any(), name
    if out.history.horizon_s is None:
        memory = out.manager.memory()
        assert memory.free + memory.external == out.history.pool.capacity_bytes


def the_engine_holds_who_has_come_and_not_left(out: Outcome) -> None:
    """Running + waiting = arrived - left, in every event and sample.

    Static batches hold who has finished, and planning ahead may preempt who is about to leave.
    """
    h, r, s = out.history, out.log.requests, out.log.steps
    if h.engine == "static" or (h.engine == "ahead" and s["preempted"].any()) or h.closed:
        return
    whole = np.round(r["arrival_s"][r["status"] != REFUSED] * 1e9).astype(np.int64).tolist()
    came = np.array([h.times * ns * 10**9 / AS_PER_S / h.times for ns in whole])
    left = np.sort(r["finish_s"][~np.isnan(r["finish_s"])])
    arrived = np.searchsorted(came, s["end_s"], side="right")
    gone = np.searchsorted(left, s["end_s"], side="left")
    assert (s["running"] + s["waiting"] == arrived - gone).all()
    t = out.log.timeline
    arrived = np.searchsorted(came, t["time_s"], side="right")
    gone = np.searchsorted(left, t["time_s"], side="right")
    assert (t["running"] + t["waiting"] == arrived - gone).all()


def limits_are_kept(out: Outcome) -> None:
    """Requests and tokens of a step; a chunk is never empty."""
    s, limits = out.log.steps, out.history.limits
    assert (s["running"] <= limits.max_num_seqs).all()
    assert (s["decodes"] <= limits.max_num_seqs).all()
    if limits.batching == "continuous":
        assert (s["decodes"] + s["prefill_tokens"] <= limits.max_num_batched_tokens).all()
    assert (s["decodes"] + s["prefill_tokens"] > 0).all()
    assert (s["steps"][s["prefill_tokens"] > 0] == 1).all()


def an_event_is_its_steps(out: Outcome) -> None:
    """Its length is that of its steps; their numbers go on without a gap."""
    s = out.log.steps
    n = s["steps"].astype(np.float64)
    lasts = n * s["first_step_s"] + s["step_growth_s"] * n * (n - 1) / 2
    np.testing.assert_allclose(s["end_s"] - s["start_s"], lasts, atol=CLOSE)
    assert (s["step"] == np.cumsum(s["steps"]) - s["steps"]).all()


def reads_are_what_the_policy_reads(out: Outcome) -> None:
    """Nothing decodes, nothing is read; a token is read no more than once, copies apart."""
    s = out.log.steps
    assert not s["read_bytes"][s["decodes"] == 0].any()
    assert (s["read_bytes"] >= 0).all()
    if "growing" not in out.history.policy:
        token = out.manager.pool.token_bytes + getattr(out.manager, "landmark_read_bytes", 0)
        assert (s["read_bytes"] <= s["context_tokens"] * token).all()


def who_gives_way_is_counted(out: Outcome) -> None:
    """Preemptions of requests are those of steps, and swapped bytes those that moved."""
    h, r, s = out.history, out.log.requests, out.log.steps
    preempted = int(s["preempted"].sum())
    moved = int((s["swap_out_bytes"] + s["swap_in_bytes"]).sum())
    counted = int(r["preemptions"].sum())
    if h.engine == "ahead":  # a horizon cuts off planned steps; the departing move too
        assert preempted <= counted if h.horizon_s is not None else preempted == counted
        return
    assert preempted == counted
    assert moved == int(r["swapped_bytes"].sum())
    if h.limits.pressure.preemption == "recompute":
        assert moved == 0


def a_horizon_is_kept(out: Outcome) -> None:
    """No step starts at or after it, and no sample is taken after the last step under way."""
    horizon = out.history.horizon_s
    if horizon is None:
        return
    horizon *= out.history.times
    s, t = out.log.steps, out.log.timeline
    assert (s["start_s"] < horizon).all()
    assert (t["time_s"] <= max(horizon, out.log.end_s)).all()


KEPT = (
    requests_have_one_end,
    times_are_in_order,
    nobody_is_passed_over,
    tokens_are_those_of_the_steps,
    prefills_are_prompts_and_what_was_lost,
    bytes_have_one_use,
    an_empty_pool_is_free,
    the_engine_holds_who_has_come_and_not_left,
    limits_are_kept,
    an_event_is_its_steps,
    reads_are_what_the_policy_reads,
    who_gives_way_is_counted,
    a_horizon_is_kept,
)
