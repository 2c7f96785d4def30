"""Numbers that were once silently wrong in ordinary use, each with the arithmetic behind it."""

import json
from pathlib import Path

import numpy as np
import pytest

from sim.cost.roofline import FixedStep, Roofline
from sim.hardware import find_device
from sim.memory.block_size import advise_block_size
from sim.model.presets import find_model
from sim.plan import AS_PER_S, Chunk, StepPlan
from sim.run.checks import find_unserved, summary
from sim.run.simulation import Run, execute, prepare, with_policy
from workloads.describe import describe
from workloads.errors import InputError
from workloads.schema import Provenance, Trace, total
from workloads.synthetic import generate

LLAMA = {"model": "llama-2-7b", "gpu": "a100-80gb"}


def trace(*rows: tuple[float, int, int]) -> Trace:
    """`rows`: arrival, prompt, output."""
    arrivals, prompts, outputs = zip(*rows, strict=True)
    return Trace(
        "by hand",
        np.array(arrivals, dtype=np.float64),
        np.array(prompts, dtype=np.int64),
        np.array(outputs, dtype=np.int64),
        Provenance("by hand", len(rows)),
    )


def run(requests: Trace, seconds: float | None = None, **options: object) -> Run:
    """Steps of so many seconds each, or as the roofline says."""
    setup = prepare(requests, **{**LLAMA, **options})  # type: ignore[arg-type]
    return execute(setup, None if seconds is None else FixedStep(seconds, "by hand"))


def test_a_run_ends_with_its_last_step() -> None:
    """20 steps of 0.25 s end at 5 s; that a request comes at 100 s, to be refused, adds nothing.

    Its 99,999 tokens are beyond Llama 2's 4,096. Samples after the last step count no more.
    """
    served = run(trace((0.0, 100, 20), (100.0, 99_999, 5)), 0.25)
    assert (served["finished"], served["refused"]) == (1, 1)
    assert served["makespan_s"] == 5.0
    assert served["request_throughput"] == 1 / 5
    assert served["output_throughput"] == 20 / 5
    assert served["total_token_throughput"] == 120 / 5
    assert served["busy_share"] == 100
    alone = run(trace((0.0, 100, 20)), 0.25)
    assert served["running_mean"] == alone["running_mean"]


def test_without_a_step_there_is_no_makespan() -> None:
    served = run(trace((0.0, 9999, 1), (7.0, 9999, 1)), 0.25)
    assert served["refused"] == 2
    for name in ("makespan_s", "request_throughput", "busy_share"):
        assert served[name] is None, name


@pytest.mark.parametrize("engine", ["default", "vllm-0.19"])
def test_an_idle_engine_sleeps_no_longer_than_the_horizon(engine: str) -> None:
    """5 steps of 0.1 s, then nothing until 20,000 s: with a horizon of 1 s the run ends at 0.5."""
    served = run(trace((0.0, 10, 5), (20_000.0, 10, 5)), 0.1, horizon=1.0, engine=engine)
    assert (served["finished"], served["unfinished"]) == (1, 1)
    assert served["makespan_s"] == 0.5
    assert served["request_throughput"] == 2
    assert served.log.timeline["time_s"].max() <= 1.0


@pytest.mark.parametrize("engine", ["default", "vllm-0.19"])
def test_a_horizon_is_left_with_the_step_under_way(engine: str) -> None:
    """Steps of 0.3 s: the fourth is under way after 1 s, and ends at 1.2."""
    served = run(trace((0.0, 10, 50)), 0.3, horizon=1.0, engine=engine)
    assert served["makespan_s"] == pytest.approx(1.2)
    assert served["output_throughput"] == pytest.approx(4 / 1.2)


def test_a_step_that_would_begin_at_the_horizon_doesnt() -> None:
    """A step, and 32 of 1/128 s from 0.02 s on, end at 0.27 s: no further one begins before it.

    In attoseconds that is no float: the nearest, 32 later, would let one more begin.
    """
    rows = trace((0.0, 10, 1), (0.02, 10, 50))
    assert run(rows, 1 / 128, horizon=0.27)["steps"] == 33


@pytest.mark.parametrize("output", [10_000_000, 10**12, 2**63 - 1])
def test_tokens_that_nobody_gets_dont_stretch_the_samples(output: int) -> None:
    """One request asks for more than the 4,096 - 100 that its context leaves: it gets those."""
    few = generate(400, 20.0, prompt="fixed:tokens=100", output="fixed:tokens=50")
    wanted = few.output_tokens.copy()
    wanted[7] = 4096 - 100
    fits = run(Trace("fits", few.arrival_s, few.prompt_tokens, wanted, few.provenance))
    asked = wanted.copy()
    asked[7] = output
    cut = run(Trace("cut", few.arrival_s, few.prompt_tokens, asked, few.provenance))
    assert cut["truncated"] == 1
    assert cut.setup.interval_s == fits.setup.interval_s
    for name in ("running_mean", "kv_live_share_mean"):
        assert cut[name] == fits[name]
    assert 800 <= len(cut.log.timeline["time_s"]) <= 2500


def test_samples_follow_each_policys_own_memory() -> None:
    """A lone output of 3,000 tokens. Where 1,000 slots are all there is, 991 of them can be had.

    The interval is the next of 1, 2 or 5 times a power of ten after a 2,000th of the time that
    those decode steps take alone.
    """
    cost = Roofline(find_model("llama-2-7b"), find_device("a100-80gb"))
    step = cost.linear(StepPlan(0, 1, 1, 1, 0, 0, 0, (), (), (), ()))[0] / AS_PER_S
    assert 5e-3 < 3000 * step / 2000 < 2e-2  # 10 ms, at about 8 ms a step
    setup = prepare(
        trace((0.0, 10, 3000)),
        **LLAMA,
        policy="paging:block_size=10",
        kv_cache_memory=1000 * 524_288,
    )
    allowed = [m * 10.0**power for power in (-3, -2) for m in (1, 2, 5)]
    assert setup.interval_s == next(s for s in allowed if s >= 991 * step / 2000)
    ring = with_policy(setup, "paging:block_size=10+sliding_window:window=500,sinks=0")
    assert ring.interval_s == next(s for s in allowed if s >= 3000 * step / 2000)


def test_samples_follow_the_horizon() -> None:
    """An hour of arrivals of which 10 s are run: a sample every 5 ms, not every 2 s."""
    hour = generate(3600, 1.0, prompt="fixed:tokens=100", output="fixed:tokens=50")
    assert prepare(hour, **LLAMA).interval_s == 2.0
    assert prepare(hour, **LLAMA, horizon=10.0).interval_s == 0.005


def test_sums_are_whole() -> None:
    """Three prompts of 2^62 are 3 · 2^62 tokens, more than 64 bits count."""
    huge = trace(*[(0.0, 2**62, 1)] * 3)
    told = describe(huge).prompt_tokens
    assert told.total == 3 * 2**62
    assert told.mean == 2**62
    assert total(np.array([2**63 - 1] * 5 + [-(2**63)])) == 5 * (2**63 - 1) - 2**63


def test_what_is_cut_is_counted_whole() -> None:
    """Outputs of 2^63 - 1 on a context of 4,096: 3 are cut, 2 prompts can never fit."""
    most = 2**63 - 1
    rows = [(0.0, 96, most), (0.0, 96, most), (0.0, 1096, most), (0.0, 4096, 9), (0.0, most, most)]
    setup = prepare(trace(*rows), **LLAMA)
    unserved = find_unserved(setup)
    assert [row.served_tokens for row in unserved] == [4000, 4000, 3000, 0, 0]
    assert summary(setup, unserved).startswith("2 of 5 requests can never be served, 3 will be tr")
    served = execute(setup, FixedStep(1e-3, "by hand"))
    assert (served["truncated"], served["refused"]) == (3, 2)
    assert served["truncated_tokens"] == 3 * most - 11_000


def test_a_block_size_is_weighed_with_lengths_of_any_size() -> None:
    """A prompt of 2^40 tokens and one output token: blocks of up to 256 divide it, so none is empty
    in any, and as much of a request fits as its one step's tokens leave."""
    ledger = prepare(trace((0.0, 1, 1)), **LLAMA).ledger
    curve = advise_block_size(trace((0.0, 2**40, 1)), ledger).curve
    assert [row.waste for row in curve] == [0.0] * len(curve)
    fits = ledger.kv_bytes / (2**40 * 524_288)
    assert [row.requests for row in curve] == pytest.approx([fits] * len(curve))


def test_a_device_is_no_larger_than_can_be_counted() -> None:
    for memory, said in (("99999999TiB", "at most 1e"), ("100000TiB", "more than 0 and at most")):
        with pytest.raises(InputError, match=rf"memory={memory}.* expected {said}"):
            find_device(f"custom:memory={memory},bandwidth=1TB/s,flops=1TFLOP/s")
    largest = find_device("custom:memory=8192TiB,bandwidth=1TB/s,flops=1TFLOP/s")
    served = run(trace((0.0, 10, 3)), gpu=largest)
    uses = [served.log.timeline[name] for name in served.log.timeline if name.endswith("_bytes")]
    assert min(column.min() for column in uses) >= 0


def test_null_blocks_beyond_the_budget_are_refused() -> None:
    """10 GiB hold 1,280 blocks of 16 tokens of 512 KiB."""
    options = {**LLAMA, "kv_cache_memory": 10 << 30}
    one = trace((0.0, 10, 3))
    prepare(one, **options, engine="vllm-0.19:null_blocks=1279")  # type: ignore[arg-type]
    for blocks in (1280, 999_999_999):
        with pytest.raises(InputError, match=f"null_blocks={blocks} keeps .*expected fewer"):
            prepare(one, **options, engine=f"vllm-0.19:null_blocks={blocks}")  # type: ignore[arg-type]


def test_a_prefill_alone_reads_no_copy() -> None:
    """Two requests with idle time between, under `growing` and paging: the same prefills."""
    rows = trace((0.0, 4, 2), (10.0, 4, 2))
    for policy in ("growing:start=4", "paging"):
        steps = run(rows, policy=policy).log.steps
        alone = steps["prefill_tokens"] > 0
        assert steps["read_bytes"][alone].tolist() == [0, 0], policy
        times = steps["first_step_s"][alone]
        assert times[0] == times[1], policy
    cost = Roofline(find_model("llama-2-7b"), find_device("a100-80gb"))
    plan = StepPlan(0, 1, 0, 0, 0, 0, 4, (Chunk(0, 0, 4, True),), (), (), ())
    assert times[0] == cost.linear(plan)[0] / AS_PER_S


def test_a_cut_table_is_not_drawn(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from reports.load import load_runs
    from sim.run.folder import write_run

    write_run(run(trace((0.0, 10, 5), (1.0, 10, 5), (2.0, 10, 5))), tmp_path, "kvtwin")
    assert len(load_runs([tmp_path])) == 1
    for name, said in (
        ("requests", "1 rows, but run.json says 3"),
        ("steps", "10 prefill_tokens, but"),
    ):
        file = tmp_path / f"{name}.parquet"
        whole = pq.read_table(file)
        pq.write_table(whole.slice(0, 1), file)
        with pytest.raises(InputError, match=rf"{name}\.parquet: {said}"):
            load_runs([tmp_path])
        pq.write_table(whole, file)
    assert json.loads((tmp_path / "run.json").read_text())["trace"]["rows"] == 3
