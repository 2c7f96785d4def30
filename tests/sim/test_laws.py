"""Laws that hold after every event, on generated traces, for every policy."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.ahead import serve_ahead
from sim.engine.limits import Limits, Pressure, Rules
from sim.engine.loop import Effects
from sim.engine.loop import serve as serve_in_step
from sim.engine.record import FINISHED, REFUSED, TRUNCATED, UNFINISHED, Column, Recorder
from sim.engine.scheduler import Scheduler
from sim.model.layers import LayerGroup
from sim.model.states import StateGroup, StatePart
from sim.plan import AS_PER_S, Done, Execute, StepPlan
from sim.policy.manager import Pool, Stored
from sim.policy.registry import parse_policy
from sim.run.driver import run_simulated
from sim.run.metrics import compute_metrics
from sim.sequence import Sequence
from tests.sim.specs import SPECS
from workloads.schema import PrefixBlocks, Provenance, Trace

POLICIES = (*SPECS, "paging:block_size=4" + (BESIDE := " beside states"))
SPEC_OF = {policy: parse_policy(policy.removesuffix(BESIDE)) for policy in POLICIES}
STATES = (StateGroup(5, "mamba", (StatePart("state", 20_000, 2, 1),)),)
GROUPS = (LayerGroup(1, "full", 40, 80, 80), LayerGroup(2, "window", 40, 80, 80, window=7))
STORED = (Stored(6400, 6400), Stored(6400, 6400))
TOKEN_BYTES = 3 * 2 * 6400


class LinearCost:
    """Made-up but exact: 1 ms a step, 10 µs a prefilled token, 1 fs a KV byte read."""

    name = "linear"
    constants = ()

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        tokens = sum(chunk.tokens for chunk in plan.chunks)
        first = (
            AS_PER_S // 10**3 + tokens * AS_PER_S // 10**5 + plan.read_bytes * AS_PER_S // 10**15
        )
        return first, plan.read_growth_bytes * AS_PER_S // 10**15, plan.max_steps


class Draw:
    """Small numbers out of bytes that hypothesis draws at once: a draw each is what would cost."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0

    def integer(self, low: int, high: int) -> int:
        """Any of them, the lowest where the byte is 0 or there is none left."""
        byte = self._text[self._at] if self._at < len(self._text) else 0
        self._at += 1
        return low + byte % (high - low + 1)

    def one_of(self, *options: Any) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def yes(self) -> bool:
        return self.integer(0, 1) == 1


CASE = 240  # bytes: limits and memory take 11 of these, twelve requests 62, the rest is for steps
AT_ONCE = 5  # cases a drawing, which takes hypothesis half as long as it takes to serve one
CASES = st.binary(min_size=AT_ONCE * CASE, max_size=AT_ONCE * CASE).map(
    lambda text: [Draw(text[start : start + CASE]) for start in range(0, len(text), CASE)]
)


def generated(cases: int) -> settings:
    """So many cases, and before them the empty ones that hypothesis begins with."""
    return settings(max_examples=1 + -(-cases // AT_ONCE), deadline=None, derandomize=True)


def drawn_trace(draw: Draw) -> Trace:
    """Few requests, arrivals with ties, lengths around the size of the memory."""
    rows = [
        (draw.integer(0, 8), draw.integer(1, 40), draw.integer(1, 30))
        for _ in range(draw.integer(0, 12))
    ]
    gaps, prompts, outputs = (np.array([row[i] for row in rows]) for i in range(3))
    prefix = drawn_prefix(draw, [row[1] for row in rows]) if rows and draw.yes() else None
    arrivals = np.cumsum(gaps) * 5e-3 if rows else np.array([])
    return Trace(
        "generated",
        (arrivals - arrivals[0] if rows else arrivals).astype(np.float64),
        prompts.astype(np.int64),
        outputs.astype(np.int64),
        Provenance("generated", len(rows)),
        prefix,
    )


def drawn_prefix(draw: Draw, prompts: list[int]) -> PrefixBlocks:
    """Blocks of any unit; each prompt begins like one of two texts, for so many blocks."""
    unit = draw.one_of(1, 3, 4, 7)
    ids: list[int] = []
    offsets = [0]
    for prompt in prompts:
        text, same = draw.integer(0, 1), draw.integer(0, 40)
        for block in range(-(-prompt // unit)):
            end = min((block + 1) * unit, prompt)
            shared = block < same and end % unit == 0
            ids.append(2 * block + text if shared else 1000 + len(ids))
        offsets.append(len(ids))
    return PrefixBlocks(unit, np.array(offsets), np.array(ids))


def drawn_limits(draw: Draw) -> Limits:
    seqs = draw.integer(1, 6)
    return Limits(
        seqs,
        draw.integer(seqs, 20),
        draw.integer(2, 60),
        batching := draw.one_of("continuous", "static"),
        Pressure(
            draw.one_of("recompute", "swap"),
            draw.one_of(100, 10 * TOKEN_BYTES, 1000 * TOKEN_BYTES),  # less than a token, few, all
            draw.one_of("last", "longest", "shortest"),
        ),
        Rules(
            async_scheduling=draw.yes() and batching == "continuous",
            reserve_whole_prompt=draw.one_of(True, True, False),
            preempted_first=draw.yes(),
            admit_after_preemption=draw.yes(),
        ),
    )


def serve(
    trace: Trace, engine: Scheduler, recorder: Recorder, horizon_as: int | None = None
) -> Effects:
    """The loop that the engine's rules ask for."""
    loop = serve_ahead if engine.limits.rules.async_scheduling else serve_in_step
    return loop(trace, engine, recorder, horizon_as)


def scheduler(policy: str, tokens: int, bounds: Limits) -> Scheduler:
    pool = Pool(tokens * TOKEN_BYTES + 7, TOKEN_BYTES, bounds.max_model_len, 0, GROUPS, STORED)
    if policy.endswith(BESIDE):
        full = Pool(pool.capacity_bytes, 0, pool.max_len, 0, GROUPS[:1], states=STATES)
        pool = full.storing(STORED[:1])
    return Scheduler(SPEC_OF[policy].manager(pool), bounds)


class Departures(Recorder):
    """Counts who was refused and who has finished, as the engine says so.

    After every event, which a log of all columns is too dear for: `assert_told` asks it once.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, 1e-2)
        self.turned_away = self.done = 0

    def refused(self, index: int) -> None:
        super().refused(index)
        self.turned_away += 1

    def completed(self, now_as: int, first: list[Sequence], finished: list[Sequence]) -> None:
        super().completed(now_as, first, finished)
        self.done += len(finished)


def assert_told(
    requests: Mapping[str, Column], recorder: Departures, seen: list[tuple[int, int]]
) -> None:
    """At each instant seen, the log has as many requests finished as were counted there."""
    assert (requests["status"] != UNFINISHED).all()  # without a horizon everyone leaves
    assert int((requests["status"] == REFUSED).sum()) == recorder.turned_away
    finish_s = np.sort(requests["finish_s"][requests["status"] != REFUSED])
    instants = np.array([now for now, _ in seen]) / AS_PER_S
    told = np.searchsorted(finish_s, instants.astype(np.float64), side="right")
    assert told.tolist() == [done for _, done in seen]


def assert_all_they_can(trace: Trace, requests: Mapping[str, Column], longest: int) -> None:
    """Refused, truncated or served whole: told by a request's lengths alone, whatever the load."""
    room = np.maximum(0, longest - trace.prompt_tokens)
    got, status = requests["generated_tokens"], requests["status"]
    gone = status != UNFINISHED
    asked = trace.output_tokens
    due = np.where(room == 0, REFUSED, np.where(room < asked, TRUNCATED, FINISHED))
    np.testing.assert_array_equal(status[gone], due[gone])
    np.testing.assert_array_equal(got[gone], np.minimum(asked, room)[gone])


@pytest.mark.parametrize("policy", POLICIES)
@generated(cases=150)
@given(draws=CASES)
def test_bytes_and_requests_are_conserved_after_every_event(policy: str, draws: list[Draw]) -> None:
    """A driver that stops anywhere a plan allows finds every byte and every request in place.

    And every request has got what it can.
    """
    for draw in draws:
        assert_conserved(policy, draw)


def assert_conserved(policy: str, draw: Draw) -> None:
    bounds, slots, trace = drawn_limits(draw), draw.integer(64, 200), drawn_trace(draw)
    engine = scheduler(policy, slots, bounds)
    manager = engine.manager
    recorder = Departures(trace)
    effects = serve(trace, engine, recorder)
    arrivals = [round(second * 10**9) * 10**9 for second in trace.arrival_s.tolist()]
    now = 0
    seen = []
    effect = next(effects, None)
    while effect is not None:
        manager.check_integrity()
        if isinstance(effect, Execute):
            plan = effect.plan
            assert plan.decodes + sum(chunk.tokens for chunk in plan.chunks) > 0
            if bounds.batching == "continuous":
                assert plan.decodes + sum(c.tokens for c in plan.chunks) <= (
                    bounds.max_num_batched_tokens
                )
            assert len(engine.running) <= bounds.max_num_seqs
            steps = draw.integer(1, plan.max_steps)
            now += steps * AS_PER_S // 10**3
            done = Done(now, steps, AS_PER_S // 10**3, 0)
        else:
            now = effect.until_as
            done = Done(now)
        try:
            effect = effects.send(done)
        except StopIteration:
            effect = None
        seen.append((now, recorder.done))
        left = recorder.turned_away + recorder.done
        assert left + len(engine.inside()) == bisect_right(arrivals, now)
    assert recorder.turned_away + recorder.done == len(trace)
    requests = recorder.log().requests
    assert_told(requests, recorder, seen)
    longest = min(bounds.max_model_len, manager.longest() + 1)
    assert_all_they_can(trace, requests, longest)
    assert engine.swap.free_bytes == bounds.pressure.swap_space_bytes
    memory = manager.memory()
    assert memory.free + memory.external == manager.pool.capacity_bytes


@pytest.mark.parametrize("policy", POLICIES)
@generated(cases=100)
@given(draws=CASES)
def test_fast_forward_changes_nothing(policy: str, draws: list[Draw]) -> None:
    """Many steps as one event end at the same attosecond, with the same samples and records."""
    for draw in draws:
        assert_same_in_single_steps(policy, draw)


def assert_same_in_single_steps(policy: str, draw: Draw) -> None:
    bounds, slots, trace = drawn_limits(draw), draw.integer(64, 200), drawn_trace(draw)
    horizon_ms = draw.one_of(None, draw.integer(1, 60))
    logs = []
    for fast_forward in (True, False):
        engine = scheduler(policy, slots, bounds)
        recorder = Recorder(trace, 1e-2)
        horizon = None if horizon_ms is None else horizon_ms * AS_PER_S // 1000
        run_simulated(serve(trace, engine, recorder, horizon), LinearCost(), fast_forward)
        logs.append(recorder.log())
    fast, single = logs
    longest = min(bounds.max_model_len, engine.manager.longest() + 1)
    assert_all_they_can(trace, single.requests, longest)  # those who left before the horizon
    for one, other in zip(*(compute_metrics(log, 10**6) for log in logs), strict=True):
        if one.value is None:
            assert other.value is None
        else:  # sums of floats, in another order
            assert one.value == pytest.approx(other.value, rel=1e-12)
    assert fast.end_s == single.end_s
    for table in ("requests", "timeline"):
        for name, column in getattr(fast, table).items():
            other = getattr(single, table)[name]
            if column.tobytes() != other.tobytes():  # says where, and is slow to find nothing
                np.testing.assert_array_equal(column, other, err_msg=name)
    steps = fast.steps
    assert steps["steps"].sum() == len(single.steps["steps"])
    # Each single step is found again in the event that covered it.
    event = np.repeat(np.arange(len(steps["steps"])), steps["steps"])
    within = np.arange(len(event)) - np.repeat(steps["step"], steps["steps"])
    for name, growth in (("context_tokens", steps["decodes"]), ("decodes", 0)):
        grown = steps[name][event] + within * (np.zeros_like(steps["decodes"]) + growth)[event]
        np.testing.assert_array_equal(grown, single.steps[name])
    rebuilt = steps["first_step_s"][event] + within * steps["step_growth_s"][event]
    np.testing.assert_allclose(rebuilt, single.steps["first_step_s"], rtol=1e-12)
