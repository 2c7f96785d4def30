"""Every number a run is judged by: name, unit, formula and value in one table.

Definitions follow vLLM's serving benchmark where it has one. Percentiles interpolate linearly.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from reports.files import MEMORY
from reports.request_times import request_latencies
from sim.engine.record import FINISHED, REFUSED, STATUSES, TRUNCATED, UNFINISHED, Log
from sim.run.gaps import gap_counts, gaps_at, mean_gap
from workloads.schema import total

Floats = NDArray[np.float64]

LATENCIES = {
    "ttft": ("TTFT", "end of the step that sampled the first token − arrival"),
    "tpot": ("TPOT", "(E2E − TTFT) ÷ (generated tokens − 1), requests with 2 or more tokens"),
    "itl": ("ITL", "every single gap between tokens of one request, prefill of others included"),
    "e2el": ("E2E", "end of the step that sampled the last token − arrival"),
    "queue": ("Queue", "start of the step that first admitted the request − arrival"),
}
STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99"}
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. `value` is None where no request or sample defines it."""

    name: str
    label: str
    unit: str
    formula: str
    value: int | float | None


def compute_metrics(log: Log, capacity_bytes: int) -> list[Metric]:
    """All metrics of a run, in the order they are shown."""
    return [
        *_counts(log),
        *_throughput(log),
        *_latencies(log),
        *_batch(log),
        *_prefix(log),
        *_memory(log, capacity_bytes),
    ]


def as_dicts(metrics: list[Metric]) -> list[dict[str, object]]:
    """For JSON."""
    return [asdict(metric) for metric in metrics]


def _counts(log: Log) -> list[Metric]:
    status = log.requests["status"]
    by_status = np.bincount(status, minlength=len(STATUSES))
    asked, got = log.requests["output_tokens"], log.requests["generated_tokens"]
    meaning = {
        FINISHED: "got all tokens they asked for",
        TRUNCATED: "finished with fewer tokens than asked: context limit or whole cache reached",
        REFUSED: "prompt can never fit; refused on arrival",
        UNFINISHED: "still waiting or running at the end",
    }
    rows = [Metric("requests", "Requests", "", "all rows of the trace", len(status))]
    rows += [
        Metric(STATUSES[s], STATUSES[s].capitalize(), "", text, int(by_status[s]))
        for s, text in meaning.items()
    ]
    cut = total((asked - got)[status == TRUNCATED])
    rows.append(
        Metric(
            "truncated_tokens", "Truncated tokens", "tokens", "asked − generated, truncated", cut
        )
    )
    return rows


def _throughput(log: Log) -> list[Metric]:
    requests, steps = log.requests, log.steps
    makespan = log.end_s - _first_arrival(log)
    done = np.isin(requests["status"], (FINISHED, TRUNCATED))
    generated = int(requests["generated_tokens"].sum())
    prompts = int(requests["prompt_tokens"][done].sum())
    busy = float((steps["end_s"] - steps["start_s"]).sum())

    def rate(amount: int) -> float | None:
        return amount / makespan if makespan > 0 else None

    return [
        Metric(
            "makespan_s",
            "Makespan",
            "s",
            "end of the last step − first arrival",
            makespan if makespan > 0 else None,
        ),
        Metric(
            "request_throughput",
            "Served",
            "req/s",
            "(finished + truncated) ÷ makespan",
            rate(int(done.sum())),
        ),
        Metric(
            "output_throughput", "Output", "tok/s", "generated tokens ÷ makespan", rate(generated)
        ),
        Metric(
            "total_token_throughput",
            "Total",
            "tok/s",
            "(prompt tokens of finished and truncated requests + generated tokens) ÷ makespan",
            rate(prompts + generated),
        ),
        Metric(
            "busy_share",
            "Busy",
            "%",
            "time in steps ÷ makespan",
            100 * busy / makespan if makespan > 0 else None,
        ),
    ]


def _first_arrival(log: Log) -> float:
    """In a closed loop it isn't the trace's, and rows that were never asked have none."""
    asked = log.requests["arrival_s"]
    return float(np.nanmin(asked)) if len(asked) and not np.isnan(asked).all() else 0.0


def _while_running(log: Log) -> NDArray[np.bool_]:
    """The samples from the first arrival to the end of the last step, as the makespan."""
    time = log.timeline["time_s"]
    return (time >= _first_arrival(log)) & (time <= log.end_s)


def _latencies(log: Log) -> list[Metric]:
    rows: list[Metric] = []
    for name, values in request_latencies(log.requests).items():
        rows += _statistics(name, *_ranks(values[~np.isnan(values)]))
    return rows + _statistics("itl", *_gap_ranks(log))


def _ranks(seconds: Floats) -> tuple[float | None, list[float]]:
    """The mean and the percentiles of STATISTICS; none where there are no values."""
    if not len(seconds):
        return None, []
    last = len(seconds) - 1
    places = [_place(q, last) for q in PERCENTILES]
    wanted = sorted({rank for low, high, _ in places for rank in (low, high)})
    ranked = np.partition(seconds, wanted)  # a tenth of the time of sorting all of them
    values = [
        _between(float(ranked[low]), float(ranked[high]), share) for low, high, share in places
    ]
    return float(seconds.sum()) / len(seconds), values


def _gap_ranks(log: Log) -> tuple[float | None, list[float]]:
    """As `_ranks`, of all gaps between tokens."""
    counts = gap_counts(log)
    gaps = int(counts.sum())
    if not gaps:
        return None, []
    places = [_place(q, gaps - 1) for q in PERCENTILES]
    at = gaps_at(log, counts, [rank for low, high, _ in places for rank in (low, high)])
    return mean_gap(log, gaps), [_between(at[low], at[high], share) for low, high, share in places]


def _place(q: int, last: int) -> tuple[int, int, float]:
    """The ranks around a percentile of values 0 to `last`, linear between as numpy's default."""
    rank = q / 100 * last
    low = int(rank)
    return low, min(low + 1, last), rank - low


def _between(a: float, b: float, share: float) -> float:
    return a + (b - a) * share


def _statistics(name: str, mean: float | None, percentiles: list[float]) -> list[Metric]:
    label, formula = LATENCIES[name]
    values = [] if mean is None else [mean, *percentiles]
    return [
        Metric(
            f"{name}_ms_{short}",
            f"{label} {text}",
            "ms",
            formula,
            1e3 * values[i] if values else None,
        )
        for i, (short, text) in enumerate(STATISTICS.items())
    ]


def _batch(log: Log) -> list[Metric]:
    s, t = log.steps, log.timeline
    requests, sampled_in, instants = log.requests, _while_running(log), _instants(log)
    decode_tokens = int((s["decodes"] * s["steps"]).sum())
    sampled = "mean of samples at a fixed interval, within the makespan"
    rows = [
        Metric("steps", "Steps", "", "engine steps", int(s["steps"].sum())),
        Metric(
            "prefill_tokens",
            "Prefilled",
            "tokens",
            "recomputation included",
            int(s["prefill_tokens"].sum()),
        ),
        Metric(
            "decode_tokens", "Decoded", "tokens", "tokens sampled by decode steps", decode_tokens
        ),
        Metric(
            "num_preemptions",
            "Preemptions",
            "",
            "times a running request lost its memory",
            int(requests["preemptions"].sum()),
        ),
        Metric(
            "preempted_requests",
            "Victims",
            "requests",
            "requests preempted at least once",
            int((requests["preemptions"] > 0).sum()),
        ),
        Metric(
            "recomputed_tokens",
            "Recomputed",
            "tokens",
            "KV of tokens lost to preemption, to be computed again",
            int(requests["recomputed_tokens"].sum()),
        ),
        Metric(
            "swapped_bytes",
            "Swapped",
            "bytes",
            "KV moved to the host and back by preemption, per GPU",
            int(requests["swapped_bytes"].sum()),
        ),
    ]
    for name in ("running", "waiting"):
        rows += [
            Metric(
                f"{name}_mean",
                f"{name.capitalize()} mean",
                "requests",
                sampled,
                _mean(t[name][sampled_in], instants[sampled_in]),
            ),
            Metric(
                f"{name}_peak",
                f"{name.capitalize()} peak",
                "requests",
                "largest at any step",
                int(s[name].max()) if len(s[name]) else 0,
            ),
        ]
    return rows


def _prefix(log: Log) -> list[Metric]:
    requests, t, inside = log.requests, log.timeline, _while_running(log)
    found = int(requests["cached_tokens"].sum())
    asked = int(requests["prompt_tokens"][~np.isnan(requests["first_scheduled_s"])].sum())
    return [
        Metric(
            "prefix_hit_tokens",
            "Prefix hits",
            "tokens",
            "prompt tokens found in the cache at first admission",
            found,
        ),
        Metric(
            "prefix_hit_ratio",
            "Prefix hit ratio",
            "%",
            "prefix hits ÷ prompt tokens of admitted requests",
            100 * found / asked if asked else None,
        ),
        Metric(
            "kv_cached_mean_bytes",
            "KV cached mean",
            "bytes",
            "free, but with contents that a later request might find; "
            "mean of samples at a fixed interval, within the makespan",
            _mean(t["cached_bytes"][inside], _instants(log)[inside]),
        ),
    ]


def _memory(log: Log, capacity: int) -> list[Metric]:
    t, s = log.timeline, log.steps
    meaning = {
        "live": "KV of tokens written",
        "reserved": "held for tokens still to come",
        "internal": "held and never to be used",
        "external": "in holes too small to serve",
        "metadata": "scales, tables, landmarks",
        "free": "free",
    }
    sampled = "mean share of the KV budget over samples at a fixed interval while requests run"
    busy = t["running"] > 0
    instants = _instants(log)[busy]
    rows = [
        Metric(
            f"kv_{name}_share_mean",
            f"KV {name}",
            "%",
            f"{meaning[name]}; {sampled}",
            _mean(100 * t[f"{name}_bytes"][busy] / capacity, instants),
        )
        for name in MEMORY
    ]
    used = sum(
        (t[f"{name}_bytes"][busy] for name in MEMORY if name not in ("free", "external")),
        start=np.zeros(int(busy.sum()), dtype=np.int64),
    )
    taken = used > 0
    peak = sum(
        (s[f"{name}_bytes"] for name in MEMORY if name not in ("free", "external")),
        start=np.zeros(len(s["steps"]), dtype=np.int64),
    )
    rows += [
        Metric(
            "kv_live_of_used_mean",
            "Live of used",
            "%",
            "live ÷ (live + reserved + internal + metadata); mean over samples while requests run",
            _mean(100 * t["live_bytes"][busy][taken] / used[taken], instants[taken]),
        ),
        Metric(
            "kv_cache_usage_perc",
            "KV used",
            "%",
            "(live + reserved + internal + metadata) ÷ KV budget; mean over samples while requests "
            "run. Slot use is KV live, block use this",
            _mean(100 * used / capacity, instants),
        ),
        Metric(
            "kv_used_peak_bytes",
            "KV used peak",
            "bytes",
            "largest in any step",
            int(peak.max()) if len(peak) else 0,
        ),
    ]
    return rows


def _instants(log: Log) -> NDArray[np.int64]:
    """Sampling instants that each sample stands for: those up to the next sample's. A step longer
    than the interval is seen once, and would count for as little as a moment of idling."""
    time_s = log.timeline["time_s"]
    if not log.interval_s or not len(time_s):
        return np.ones(len(time_s), dtype=np.int64)
    ends = np.append(time_s[1:], max(log.end_s, float(time_s[-1])))
    due = [np.floor(times / log.interval_s + 1e-6).astype(np.int64) for times in (time_s, ends)]
    found: NDArray[np.int64] = np.maximum(due[1] - due[0], 1)
    return found


def _mean(
    values: NDArray[np.float64] | NDArray[np.int64], weights: NDArray[np.int64]
) -> float | None:
    if not len(values):
        return None
    if (weights == 1).all():
        return float(values.mean())
    return float(np.average(values, weights=weights))
