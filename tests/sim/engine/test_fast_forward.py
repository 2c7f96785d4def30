"""Fast-forward against its oracle, single stepping: the same requests, the same summary.

Times are equal exactly, for the clock counts integers. So is every metric but those that add or
rebuild single steps in floating point, whose rounding differs with the order: ROUNDED.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.limits import Limits
from sim.engine.loop import serve
from sim.engine.record import Log, Recorder
from sim.engine.scheduler import Scheduler
from sim.model.layers import LayerGroup
from sim.plan import AS_PER_S, StepPlan
from sim.policy.manager import Pool, Stored
from sim.policy.registry import BUILT_IN, parse_policy
from sim.run.driver import run_simulated
from sim.run.folder import write_run
from sim.run.metrics import Metric, compute_metrics
from sim.run.simulation import execute, prepare
from tests.sim.specs import SPECS
from workloads import read_trace
from workloads.schema import PrefixBlocks, Provenance, Trace
from workloads.transform import time_slice

TRACES = 500  # over all specs
GROUPS = (LayerGroup(1, "full", 40, 80, 80), LayerGroup(2, "window", 40, 80, 80, window=7))
STORED = (Stored(6400, 6400), Stored(6400, 6400))
TOKEN_BYTES = 3 * 2 * 6400
ROUNDED = ("itl_ms_", "busy_share")


class LinearCost:
    """1 ms a step, 10 µs a prefilled token, 1 fs a KV byte read."""

    name = "linear"
    constants = ()

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        first = AS_PER_S // 10**3 + plan.prefill_tokens * AS_PER_S // 10**5
        first += plan.read_bytes * AS_PER_S // 10**15
        return first, plan.read_growth_bytes * AS_PER_S // 10**15, plan.max_steps


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Arrivals with ties, and about one prompt in ten that no memory here can hold.

    Drawn by numpy: what Hypothesis draws itself is mostly short, and such memory never runs out.
    """
    requests = draw(st.integers(1, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    arrivals = np.cumsum(rng.integers(0, draw(st.integers(1, 9)), requests)) * 5e-3
    prompts = np.where(rng.random(requests) < 0.1, 100, rng.integers(1, 30, requests))
    outputs = rng.integers(1, 50, requests)
    # Blocks of 4 tokens; requests of one family begin with the same ones.
    family, same = rng.integers(0, 3, requests), rng.integers(0, 7, requests)
    ids = [
        100 * family[i] + block if block < min(same[i], tokens // 4) else 1000 + 100 * i + block
        for i, tokens in enumerate(prompts)
        for block in range(-(-tokens // 4))
    ]
    offsets = np.concatenate(([0], np.cumsum(-(-prompts // 4))))
    prefix = PrefixBlocks(4, offsets, np.array(ids, dtype=np.int64))
    source = Provenance("generated", requests)
    return Trace("generated", arrivals - arrivals[0], prompts, outputs, source, prefix)


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    seqs = draw(st.integers(1, 10))
    batching = draw(st.sampled_from(["continuous", "continuous", "continuous", "static"]))
    return Limits(seqs, draw(st.integers(seqs, 60)), draw(st.integers(40, 64)), batching)


def served(policy: str, trace: Trace, slots: int, bounds: Limits, fast_forward: bool) -> Log:
    pool = Pool(slots * TOKEN_BYTES + 7, TOKEN_BYTES, bounds.max_model_len, 0, GROUPS, STORED)
    recorder = Recorder(trace, 1e-2)
    engine = Scheduler(parse_policy(policy).manager(pool), bounds)
    run_simulated(serve(trace, engine, recorder), LinearCost(), fast_forward)
    return recorder.log()


def assert_same_summary(fast: list[Metric], single: list[Metric]) -> None:
    for a, b in zip(fast, single, strict=True):
        if a.name.startswith(ROUNDED) and a.value is not None:
            assert a.value == pytest.approx(b.value, rel=1e-9), a.name
        else:
            assert a == b


@pytest.mark.parametrize("policy", SPECS)
@settings(max_examples=-(-TRACES // len(SPECS)), deadline=None, derandomize=True)
@given(trace=traces(), slots=st.integers(64, 90), bounds=limits())
def test_generated_traces(policy: str, trace: Trace, slots: int, bounds: Limits) -> None:
    fast, single = (served(policy, trace, slots, bounds, mode) for mode in (True, False))
    for name, column in fast.requests.items():
        np.testing.assert_array_equal(column, single.requests[name], err_msg=name)
    np.testing.assert_array_equal(fast.resume_gaps_s, single.resume_gaps_s)
    capacity = slots * TOKEN_BYTES + 7
    assert_same_summary(compute_metrics(fast, capacity), compute_metrics(single, capacity))


def test_every_registered_policy_is_among_them() -> None:
    named = {part.split(":")[0] for spec in SPECS for part in spec.split("+")}
    assert named == set(BUILT_IN)


def test_the_generated_traces_are_tight() -> None:
    """What the test above rests on: such memory is shared, and refuses, truncates and preempts."""
    seen = {"cached": 0, "preemptions": 0, "refused": 0, "truncated": 0, "ties": 0}

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(trace=traces(), slots=st.integers(64, 90), bounds=limits())
    def look(trace: Trace, slots: int, bounds: Limits) -> None:
        policy = "paging:block_size=4+prefix"
        requests = served(policy, trace, slots, bounds, True).requests
        seen["cached"] += int((requests["cached_tokens"] > 0).sum())
        seen["preemptions"] += int(requests["preemptions"].sum())
        seen["refused"] += int((requests["status"] == 2).sum())
        seen["truncated"] += int((requests["status"] == 1).sum())
        seen["ties"] += int((np.diff(trace.arrival_s) == 0).sum())

    look()
    assert min(seen.values()) >= 10, seen


@pytest.fixture(
    scope="module",
    params=[("azure-2023-conv", 600, 660), ("azure-2023-code", 300, 420)],
    ids=lambda param: "-".join(map(str, param)),
)
def minutes(request: pytest.FixtureRequest) -> Trace:
    """Minutes of real traffic."""
    name, start_s, end_s = request.param
    return time_slice(read_trace(name), start_s, end_s)


@pytest.mark.parametrize("policy", SPECS)
def test_azure_slices(policy: str, minutes: Trace, tmp_path: Path) -> None:
    """Real traffic through the roofline, with memory for about twelve requests."""
    wide = policy.replace("window=8", "window=800").replace("max_len=24", "max_len=2400")
    wide = wide.replace("block_size=2,", "block_size=16,")
    setup = prepare(
        minutes,
        model="llama-2-7b",
        gpu="a100-80gb",
        policy=wide,
        max_model_len=4096,
        kv_cache_memory=15_000 * 524_288,
    )
    written = []
    for fast_forward in (True, False):
        folder = tmp_path / str(fast_forward)
        folder.mkdir()
        run = execute(replace(setup, fast_forward=fast_forward))
        write_run(run, folder, "test")
        written.append(((folder / "requests.parquet").read_bytes(), run.metrics_list))
    (fast, summary), (single, expected) = written
    assert fast == single
    assert_same_summary(summary, expected)
