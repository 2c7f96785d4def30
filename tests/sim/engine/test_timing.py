"""Time against theory: a lone request, a queue, and the plan's own arithmetic."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sim import simulate
from sim.cost.roofline import Roofline
from sim.engine.limits import Limits
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.hardware import find_device
from sim.model.presets import find_model
from sim.plan import AS_PER_S, Chunk, StepPlan
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.run.driver import run_simulated, steps_to_reach
from workloads.schema import Provenance, Trace


def trace(arrivals: list[float], prompt: int, output: int) -> Trace:
    n = len(arrivals)
    return Trace(
        "made",
        np.array(arrivals, dtype=np.float64),
        np.full(n, prompt, dtype=np.int64),
        np.full(n, output, dtype=np.int64),
        Provenance("made", n),
    )


def step(plan: StepPlan, cost: Roofline) -> float:
    first, _, _ = cost.linear(plan)
    return first / AS_PER_S


def decode(context: int, token_bytes: int) -> StepPlan:
    return StepPlan(0, 1, 1, context, context * token_bytes, token_bytes, 0, (), (), (), ())


def prefill(start: int, tokens: int, last: bool) -> StepPlan:
    return StepPlan(0, 1, 0, 0, 0, 0, tokens, (Chunk(0, start, tokens, last),), (), (), ())


def test_a_lone_request_takes_what_the_cost_model_says() -> None:
    """TTFT = prefill; E2E adds one decode step a further token, over 33 keys, then 34, ..."""
    run = simulate(trace([0.0], 32, 16), model="llama-2-7b", gpu="a100-80gb", policy="paging")
    cost = Roofline(find_model("llama-2-7b"), find_device("a100-80gb"))
    ttft = step(prefill(0, 32, True), cost)
    decodes = sum(step(decode(32 + j, 524_288), cost) for j in range(1, 16))
    assert run["ttft_ms_mean"] == pytest.approx(1e3 * ttft, rel=1e-12)
    assert run["tpot_ms_mean"] == pytest.approx(1e3 * decodes / 15, rel=1e-12)
    assert run["e2el_ms_mean"] == pytest.approx(1e3 * (ttft + decodes), rel=1e-12)


def test_a_long_prompt_is_prefilled_in_chunks_of_the_budget() -> None:
    run = simulate(
        trace([0.0], 1200, 1),
        model="llama-2-7b",
        gpu="a100-80gb",
        policy="paging",
        max_num_batched_tokens=512,
    )
    cost = Roofline(find_model("llama-2-7b"), find_device("a100-80gb"))
    chunks = ((0, 512, False), (512, 512, False), (1024, 176, True))
    expected = sum(step(prefill(*chunk), cost) for chunk in chunks)
    assert run["ttft_ms_mean"] == pytest.approx(1e3 * expected, rel=1e-12)
    assert run["tpot_ms_mean"] is None  # one token has no gap


def test_the_last_sampled_token_is_never_written() -> None:
    """32 prompt + 16 output tokens use 47 slots."""
    run = simulate(
        trace([0.0], 32, 16), model="llama-2-7b", gpu="a100-80gb", policy="paging:block_size=1"
    )
    assert run["kv_used_peak_bytes"] == 47 * 524_288


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_waiting_matches_the_m_d_1_queue(load: float) -> None:
    """One server, Poisson arrivals, fixed service: W = ρ·S / (2(1 − ρ)) (Pollaczek-Khinchine).

    That is the mean of what Lindley's recursion says of each: who comes waits as long as the one
    before, and a service longer, less the gap between them, and not less than 0. The engine's
    requests wait so, one by one.
    """
    service_s = 0.125

    class Fixed:
        name = "fixed"
        constants = ()

        def linear(self, plan: StepPlan) -> tuple[int, int, int]:
            return AS_PER_S // 8, 0, 1

    n, served = 200_000, 40_000
    gaps = np.random.default_rng(7).exponential(service_s / load, n)
    # Scaled so that the mean gap is exact: what is tested is the queue, not the generator.
    arrivals = np.cumsum(gaps * (service_s / load / gaps.mean()))
    arrivals -= arrivals[0]
    ahead = np.arange(n) * service_s - arrivals  # of a server that never idles
    waits = ahead - np.minimum.accumulate(ahead)
    assert waits.mean() == pytest.approx(load * service_s / (2 * (1 - load)), rel=0.03)
    queue = Trace(
        "poisson",
        arrivals[:served],
        np.ones(served, dtype=np.int64),
        np.ones(served, dtype=np.int64),
        Provenance("poisson", served),
    )
    manager = parse_policy("paging:block_size=1").manager(Pool(100, 10, 10))
    recorder = Recorder(queue, 1e6)
    scheduler = Scheduler(manager, Limits(1, 1, 10))
    run_simulated(serve(queue, scheduler, recorder), Fixed())
    requests = recorder.log().requests
    waited = requests["first_scheduled_s"] - requests["arrival_s"]
    np.testing.assert_allclose(waited, waits[:served], rtol=0, atol=1e-8)
    assert (waited > 0).mean() > load / 2  # many do wait


@example(first=10, growth=0, span=30, limit=9)  # three steps end exactly then
@given(
    first=st.integers(1, 10**15),
    growth=st.integers(0, 10**12),
    span=st.integers(1, 10**18),
    limit=st.integers(1, 5000),
)
def test_steps_to_reach_is_the_fewest(first: int, growth: int, span: int, limit: int) -> None:
    def lasts(k: int) -> int:
        return sum(first + j * growth for j in range(k))

    k = steps_to_reach(first, growth, span, limit)
    assert 1 <= k <= limit
    assert k == limit or lasts(k) >= span
    assert k == 1 or lasts(k - 1) < span


@pytest.mark.parametrize("gpu", ["a100-40gb", "h200", "rtx-4090"])
def test_repetitions_of_a_plan_cost_what_the_plan_of_each_costs(gpu: str) -> None:
    cost = Roofline(find_model("llama-3-8b"), find_device(gpu))
    plan = StepPlan(0, 50, 7, 9000, 9000 * 131_072, 7 * 131_072, 0, (), (), (), ())
    first, growth, _ = cost.linear(plan)
    for j in (1, 2, 49):
        later = plan._replace(
            context_tokens=9000 + 7 * j, read_bytes=(9000 + 7 * j) * 131_072, step=j
        )
        assert cost.linear(later)[0] == first + j * growth


def test_prefill_attention_sees_windows() -> None:
    """gpt-oss-20b: 12 full and 12 layers of window 128, 64 heads of 64. 1,000 tokens after 9,000:
    9,000 · 1,000 + 1,000 · 1,001 / 2 pairs in a full layer, 128 · 1,000 in a windowed one."""
    device = find_device("h200")
    cost = Roofline(find_model("gpt-oss-20b"), device)
    pair = 4 * 64 * 64 * 12 / (device.flops_per_s * 0.60)
    early, late = step(prefill(0, 1000, False), cost), step(prefill(9000, 1000, False), cost)
    windowed = 128 * 1000  # the same for both: full windows are an upper bound for the early one
    assert late - early == pytest.approx(pair * 9_000_000, rel=1e-6)
    bare = early - pair * (1000 * 1001 / 2 + windowed)
    longer = step(prefill(9000, 2000, False), cost)
    assert longer > late > early > bare > 0
