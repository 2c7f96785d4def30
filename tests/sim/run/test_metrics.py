"""Every number of a run, worked out by hand from three short histories.

A step takes 100 ms, 10 ms more for each token it prefills and 1 ms more for each token of context
that its decodes read (none in the second history). All of it is arithmetic that fits in the margin.
"""

from pathlib import Path

import numpy as np
import pytest

from sim.engine.limits import Limits, Pressure
from sim.engine.loop import serve
from sim.engine.record import Log, Recorder
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S, StepPlan
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.run.driver import run_simulated
from sim.run.gaps import token_gaps
from sim.run.metrics import compute_metrics, reached
from sim.run.simulation import simulate
from workloads.schema import PrefixBlocks, Provenance, Trace

MS = AS_PER_S // 1000


class ByTheRule:
    """The cost that the histories are written with."""

    name = "by the rule"
    constants = ()
    warnings = ()

    def __init__(self, context_ms: int) -> None:
        self.context_ms = context_ms

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        prefill = 10 * sum(chunk.tokens for chunk in plan.chunks)
        first = 100 + prefill + self.context_ms * plan.context_tokens
        return first * MS, self.context_ms * plan.decodes * MS, plan.max_steps


def served(
    requests: list[tuple[float, int, int]],
    policy: str,
    pool: Pool,
    interval_s: float,
    context_ms: int = 0,
    prefix: PrefixBlocks | None = None,
    pressure: Pressure | None = None,
) -> tuple[Log, dict[str, int | float | None]]:
    """Two requests run at once, eight tokens a step. `requests`: arrival, prompt, output."""
    arrivals, prompts, outputs = zip(*requests, strict=True)
    trace = Trace(
        "by hand",
        np.array(arrivals, dtype=np.float64),
        np.array(prompts, dtype=np.int64),
        np.array(outputs, dtype=np.int64),
        Provenance("by hand", len(requests)),
        prefix,
    )
    limits = Limits(2, 8, 100, pressure=pressure or Pressure())
    scheduler = Scheduler(parse_policy(policy).manager(pool), limits)
    recorder = Recorder(trace, interval_s)
    run_simulated(serve(trace, scheduler, recorder), ByTheRule(context_ms))
    log = recorder.log()
    metrics = compute_metrics(log, pool.capacity_bytes)
    return log, {metric.name: metric.value for metric in metrics}


@pytest.fixture(scope="module")
def smooth() -> tuple[Log, dict[str, int | float | None]]:
    """Three requests, nothing in the way. Blocks of 4 tokens of 4 bytes, 10 of them and 3 bytes.

    ======  ============  =========================  =========  ===============================
    step    from - to ms  does                       tokens A C  what it leads to
    ======  ============  =========================  =========  ===============================
    0         0 - 140     prefills A's 4             4          A's first
    1       140 - 275     A at 5, prefills B's 3     5          B's first and last; C waits
    2       275 - 441     A at 6, prefills C's 6     6  6       C's first
    3       441 - 555     A and C at 7               7  7
    4       555 - 671     A and C at 8               8  8
    5       671 - 789     A and C at 9               9  9       A's sixth and last
    6       789 - 899     C at 10                       10      C's fifth and last
    ======  ============  =========================  =========  ===============================

    Steps 4 and 5 are one event: the next sample is due at 750.
    """
    requests = [(0.0, 4, 6), (0.05, 3, 1), (0.12, 6, 5)]
    return served(requests, "paging:block_size=4", Pool(163, 4, 100), 0.25, context_ms=1)


GAPS = [135, 166, 114, 116, 118, 114, 116, 118, 110]
"""Between the tokens of A (5 of them) and C (4), in ms."""


@pytest.fixture(scope="module")
def rough() -> tuple[Log, dict[str, int | float | None]]:
    """A preemption, a refusal, a cut and an idle time. 9 tokens of 2 bytes fit, and a byte.

    ======  =============  ===========================================================
    step    from - to ms   does
    ======  =============  ===========================================================
    0          0 - 160     prefills the 3 of A and of B
    1        160 - 260     A and B at 4: 8 tokens, one is free
    2        260 - 360     B (4 tokens) gives way, A at 5
    3, 4     360 - 560     A at 6 and 7, its fifth token is its last; B's 5 don't fit
    5        560 - 710     prefills B's 5 again, which samples its third token
    6        710 - 810     B at 6, its fourth token is its last
    7       1000 - 1120    prefills D's 2
    8 - 14  1120 - 1820    D at 3 to 9, its eighth token is the last that fits
    ======  =============  ===========================================================

    The third request, 12 tokens long, can never fit. Samples are due every 300 ms.
    """
    requests = [(0.0, 3, 5), (0.0, 3, 4), (0.5, 12, 3), (1.0, 2, 20)]
    return served(requests, "paging:block_size=1", Pool(19, 2, 100), 0.3)


ROUGH_GAPS = [100] * 4 + [100, 450, 100] + [100] * 7
"""Of A, B and D, in ms: B's third token came 710 - 260 after its second."""


def spread(name: str, values_ms: list[float]) -> dict[str, float]:
    """Mean and percentiles by numpy, a value for each request or token."""
    found = {f"{name}_ms_p{q}": float(np.percentile(values_ms, q)) for q in (50, 90, 99)}
    return {**found, f"{name}_ms_mean": sum(values_ms) / len(values_ms)}


def check(found: dict[str, int | float | None], expected: dict[str, float]) -> None:
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-12), name


def test_latencies_are_those_of_the_stamps(smooth: tuple[Log, dict[str, float]]) -> None:
    """Arrivals at 0, 50 and 120 ms; first tokens at 140, 275 and 441, last at 789, 275 and 899."""
    check(smooth[1], spread("ttft", [140, 225, 321]))
    check(smooth[1], spread("e2el", [789, 225, 779]))
    check(smooth[1], spread("tpot", [(789 - 140) / 5, (899 - 441) / 4]))  # B has a single token
    check(smooth[1], spread("queue", [0, 140 - 50, 275 - 120]))


def test_percentiles_of_token_gaps_weigh_every_gap(
    smooth: tuple[Log, dict[str, float]], rough: tuple[Log, dict[str, float]]
) -> None:
    """A step's time counts once for each sequence that it gave a token, a growing one each time."""
    check(smooth[1], spread("itl", GAPS))
    check(rough[1], spread("itl", ROUGH_GAPS))
    for (log, _), expected in ((smooth, GAPS), (rough, ROUGH_GAPS)):
        gaps, counts = (np.concatenate(parts) for parts in zip(*token_gaps(log), strict=True))
        every = np.sort(np.repeat(gaps, counts))
        np.testing.assert_allclose(every, np.sort(expected) / 1e3, rtol=1e-12)


def test_requests_by_outcome(
    smooth: tuple[Log, dict[str, float]], rough: tuple[Log, dict[str, float]]
) -> None:
    """D asked for 20 tokens and got 8."""
    names = ("requests", "finished", "truncated", "refused", "unfinished", "truncated_tokens")
    assert [smooth[1][name] for name in names] == [3, 3, 0, 0, 0, 0]
    assert [rough[1][name] for name in names] == [4, 2, 1, 1, 0, 20 - 8]


def test_throughput(
    smooth: tuple[Log, dict[str, float]], rough: tuple[Log, dict[str, float]]
) -> None:
    """12 tokens for 13 of prompts in 899 ms; 17 for 3 + 3 + 2 in 1,820, of which 190 idle."""
    check(
        smooth[1],
        {
            "makespan_s": 0.899,
            "request_throughput": 3 / 0.899,
            "output_throughput": 12 / 0.899,
            "total_token_throughput": (13 + 12) / 0.899,
            "busy_share": 100,
        },
    )
    check(
        rough[1],
        {
            "makespan_s": 1.82,
            "request_throughput": 3 / 1.82,
            "output_throughput": 17 / 1.82,
            "total_token_throughput": (8 + 17) / 1.82,
            "busy_share": 100 * (0.81 + 0.82) / 1.82,
        },
    )


def test_running_is_counted_before_who_is_done_leaves(
    smooth: tuple[Log, dict[str, float]], rough: tuple[Log, dict[str, float]]
) -> None:
    """An event's row is the batch that ran, and the queue as its end finds it."""
    log, found = smooth
    assert log.steps["step"].tolist() == [0, 1, 2, 3, 4, 6]
    assert log.steps["running"].tolist() == [1, 2, 2, 2, 2, 1]
    assert log.steps["waiting"].tolist() == [2, 1, 0, 0, 0, 0]
    assert (found["running_peak"], found["waiting_peak"]) == (2, 2)
    log, found = rough
    assert log.steps["step"].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 12]
    assert log.steps["running"].tolist() == [2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert log.steps["waiting"].tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]


def test_samples_are_taken_in_the_first_step_at_or_after_they_are_due(
    smooth: tuple[Log, dict[str, float]], rough: tuple[Log, dict[str, float]]
) -> None:
    """Due at 0, 250, 500 and 750 ms; at 0, 300 ... 1,800, where nothing runs at 900 and 1,820."""
    log, found = smooth
    np.testing.assert_allclose(log.timeline["time_s"], [0, 0.275, 0.555, 0.789], rtol=1e-12)
    assert log.timeline["running"].tolist() == [1, 2, 2, 1]
    check(found, {"running_mean": 6 / 4, "waiting_mean": 0})
    log, found = rough
    due = [0, 0.36, 0.71, 0.9, 1.22, 1.52, 1.82]
    np.testing.assert_allclose(log.timeline["time_s"], due, rtol=1e-12)
    assert log.timeline["running"].tolist() == [2, 1, 1, 0, 1, 1, 0]
    assert log.timeline["waiting"].tolist() == [0, 1, 0, 0, 0, 0, 0]
    check(found, {"running_mean": 6 / 7, "waiting_mean": 1 / 7})


def test_memory_shares_and_peak(smooth: tuple[Log, dict[str, float]]) -> None:
    """Sampled in steps 0, 2, 4 and 6: A; A and C at 6; both at 8; C at 10. 16 bytes a block.

    Live 4, 12, 16 and 10 tokens in 1, 4, 4 and 3 blocks; most in step 5, 3 blocks each.
    """
    live, used = np.array([16, 48, 64, 40]), np.array([16, 64, 64, 48])
    check(
        smooth[1],
        {
            "kv_live_share_mean": 100 * live.mean() / 163,
            "kv_reserved_share_mean": 0,
            "kv_internal_share_mean": 100 * (used - live).mean() / 163,
            "kv_external_share_mean": 100 * 3 / 163,
            "kv_metadata_share_mean": 0,
            "kv_free_share_mean": 100 * (160 - used).mean() / 163,
            "kv_live_of_used_mean": 100 * (live / used).mean(),
            "kv_cache_usage_perc": 100 * used.mean() / 163,
            "kv_used_peak_bytes": 6 * 16,
        },
    )


def test_memory_shares_are_over_samples_in_which_requests_run(
    rough: tuple[Log, dict[str, float]],
) -> None:
    """Five of seven: A at 6, A at 6, B at 6, D at 4 and D at 7 tokens of 2 bytes."""
    live = np.array([12, 12, 12, 8, 14])
    expected = {"kv_live_share_mean": live, "kv_free_share_mean": 18 - live}
    check(rough[1], {name: 100 * held.mean() / 19 for name, held in expected.items()})


def test_a_context_in_two_chunks_takes_its_blocks_once() -> None:
    """12 tokens in chunks of 8 and 4 are three blocks of 4 tokens of 4 bytes, of ten."""
    _, found = served([(0.0, 12, 1)], "paging:block_size=4", Pool(160, 4, 100), 0.25)
    check(found, {"steps": 2, "kv_used_peak_bytes": 3 * 16})


def test_work_of_the_engine(
    smooth: tuple[Log, dict[str, float]], rough: tuple[Log, dict[str, float]]
) -> None:
    """B's 4 tokens were lost and 5 prefilled for it again; 17 tokens, 4 of them by prefills."""
    check(smooth[1], {"steps": 7, "prefill_tokens": 13, "decode_tokens": 9})
    check(
        rough[1],
        {
            "steps": 15,
            "prefill_tokens": 6 + 5 + 2,
            "decode_tokens": 17 - 4,
            "num_preemptions": 1,
            "preempted_requests": 1,
            "recomputed_tokens": 4,
            "swapped_bytes": 0,
            "kv_used_peak_bytes": 18,
        },
    )


def test_swapped_bytes_count_both_ways() -> None:
    """The second history with room on the host: B's 4 tokens of 2 bytes leave and come back."""
    requests = [(0.0, 3, 5), (0.0, 3, 4)]
    pressure = Pressure("swap", 1000)
    _, found = served(requests, "paging:block_size=1", Pool(19, 2, 100), 0.3, pressure=pressure)
    check(found, {"swapped_bytes": 16, "recomputed_tokens": 0, "num_preemptions": 1})


def test_prefix_hits() -> None:
    """Two prompts of 9 tokens begin with the same two blocks of 4; the second finds 8 tokens.

    Between them, at the second of three samples, those 8 tokens of 2 bytes are free and kept.
    """
    prefix = PrefixBlocks(4, np.array([0, 3, 6]), np.array([1, 2, 3, 1, 2, 4]))
    log, found = served(
        [(0.0, 9, 1), (1.0, 9, 1)],
        "paging:block_size=4+prefix",
        Pool(200, 2, 100),
        0.5,
        prefix=prefix,
    )
    assert log.timeline["time_s"].tolist() == [0, 0.5, 1.0]
    check(
        found,
        {
            "prefix_hit_tokens": 8,
            "prefix_hit_ratio": 100 * 8 / 18,
            "kv_cached_mean_bytes": 16 / 3,
        },
    )


def test_what_no_request_defines_has_no_value() -> None:
    """A lone request that can never fit: no latency, no rate, no hit."""
    _, found = served([(0.0, 12, 3)], "paging:block_size=1", Pool(19, 2, 100), 0.3)
    assert found["refused"] == 1
    for name in ("ttft_ms_mean", "itl_ms_p99", "request_throughput", "prefix_hit_ratio"):
        assert found[name] is None, name


def test_every_metric_is_worked_out_here(smooth: tuple[Log, dict[str, float]]) -> None:
    """A metric that is added must be pinned as well: its name stands in this file."""
    text = open(__file__).read()  # noqa: SIM115
    latencies = ("ttft_ms_", "tpot_ms_", "e2el_ms_", "queue_ms_", "itl_ms_")
    missing = [
        name for name in smooth[1] if f'"{name}"' not in text and not name.startswith(latencies)
    ]
    assert not missing


def test_a_long_step_counts_for_every_instant_within_it(tmp_path: Path) -> None:
    """Three steps of a second each in a run of 3 s with samples due every 2 ms, and nothing else.

    Two requests of one chunk arrive at 0 and run for two steps, a third at 5 s for one. From 0 to
    2 s two run, to 5 s none, to 6 s one: (2 x 2 + 1 x 1) / 6.
    """
    file = tmp_path / "three.csv"
    file.write_text(
        "arrival_s,prompt_tokens,output_tokens\n0,10,2\n0,10,2\n5,10,1\n", encoding="utf-8"
    )
    run = simulate(
        file, model="llama-small", gpu="a100-40gb", policy="paging", cost="fixed:seconds=1"
    )
    metrics = {row.name: row.value for row in run.metrics_list}
    assert metrics["makespan_s"] == 6
    assert metrics["running_mean"] == pytest.approx(5 / 6, rel=2e-3)
    assert metrics["waiting_mean"] == 0


@pytest.mark.parametrize("off_as", [0, -1_000_000_000, 1_000_000_000])
def test_sampling_instants_are_told_from_moments_beside_them(off_as: int) -> None:
    """A nanosecond before an instant isn't it. Times are attoseconds, divided and rounded once."""
    for interval_as in (
        AS_PER_S // 1000,
        AS_PER_S // 100,
        AS_PER_S // 5,
        2 * AS_PER_S,
        30 * AS_PER_S,
    ):
        numbers = [*range(1, 2_000), *range(10_000, 10_500)]
        times = np.array([(number * interval_as + off_as) / AS_PER_S for number in numbers])
        expected = [number - (off_as < 0) for number in numbers]
        assert reached(times, interval_as / AS_PER_S).tolist() == expected
