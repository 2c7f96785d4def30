"""Every number a run is judged by: name, unit, formula and value in one table.

Definitions follow vLLM's serving benchmark where it has one. Percentiles interpolate linearly.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from reports.files import MEMORY
from reports.request_times import LATENCY_COLUMNS, latency
from sim.engine.record import FINISHED, REFUSED, STATUSES, TRUNCATED, UNFINISHED, Column, Log
from sim.run.gaps import gap_counts, gaps_at, mean_gap
from sim.run.tables import parts
from sim.run.totals import USED, OfRequests, OfSteps, of_requests, of_steps

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
    requests, steps = of_requests(log), of_steps(log)
    samples = _Samples(log, requests.first_arrival_s)
    return [
        *_counts(requests),
        *_throughput(requests, steps, log.end_s),
        *_latencies(log, requests.requests),
        *_batch(requests, steps, samples),
        *_prefix(requests, samples),
        *_memory(steps, log, capacity_bytes),
    ]


def as_dicts(metrics: list[Metric]) -> list[dict[str, object]]:
    """For JSON."""
    return [asdict(metric) for metric in metrics]


def _counts(requests: OfRequests) -> list[Metric]:
    meaning = {
        FINISHED: "got all tokens they asked for",
        TRUNCATED: "finished with fewer tokens than asked: context limit or whole cache reached",
        REFUSED: "prompt can never fit; refused on arrival",
        UNFINISHED: "still waiting or running at the end",
    }
    rows = [Metric("requests", "Requests", "", "all rows of the trace", requests.requests)]
    rows += [
        Metric(STATUSES[s], STATUSES[s].capitalize(), "", text, int(requests.by_status[s]))
        for s, text in meaning.items()
    ]
    cut = requests.cut_tokens
    rows.append(
        Metric(
            "truncated_tokens", "Truncated tokens", "tokens", "asked − generated, truncated", cut
        )
    )
    return rows


def _throughput(requests: OfRequests, steps: OfSteps, end_s: float) -> list[Metric]:
    makespan = end_s - requests.first_arrival_s

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
            rate(requests.done),
        ),
        Metric(
            "output_throughput",
            "Output",
            "tok/s",
            "generated tokens ÷ makespan",
            rate(requests.generated_tokens),
        ),
        Metric(
            "total_token_throughput",
            "Total",
            "tok/s",
            "(prompt tokens of finished and truncated requests + generated tokens) ÷ makespan",
            rate(requests.done_prompt_tokens + requests.generated_tokens),
        ),
        Metric(
            "busy_share",
            "Busy",
            "%",
            "time in steps ÷ makespan",
            100 * steps.busy_s / makespan if makespan > 0 else None,
        ),
    ]


class _Samples:
    """Means over samples from the first arrival to the end of the last step, as the makespan."""

    def __init__(self, log: Log, first_arrival_s: float) -> None:
        self._timeline = log.timeline
        time = log.timeline["time_s"]
        self._inside = (time >= first_arrival_s) & (time <= log.end_s)
        self._instants = _instants(log)[self._inside]

    def mean(self, name: str) -> float | None:
        return _mean(self._timeline[name][self._inside], self._instants)


def _latencies(log: Log, requests: int) -> list[Metric]:
    rows: list[Metric] = []
    for name, columns in LATENCY_COLUMNS.items():
        values, at = np.empty(requests), 0
        for part in parts(log.requests, *columns):
            found = latency(name, dict(zip(columns, part, strict=True)))
            known = found[~np.isnan(found)]
            values[at : at + len(known)] = known
            at += len(known)
        rows += _statistics(name, *_ranks(values[:at]))
    return rows + _statistics("itl", *_gap_ranks(log))


def _ranks(seconds: Floats) -> tuple[float | None, list[float]]:
    """The mean and the percentiles of STATISTICS; none where there are no values.

    The values are put into another order.
    """
    if not len(seconds):
        return None, []
    mean = float(seconds.sum()) / len(seconds)
    last = len(seconds) - 1
    places = [_place(q, last) for q in PERCENTILES]
    wanted = sorted({rank for low, high, _ in places for rank in (low, high)})
    seconds.partition(wanted)  # a tenth of the time of sorting all of them
    return mean, [
        _between(float(seconds[low]), float(seconds[high]), share) for low, high, share in places
    ]


def _gap_ranks(log: Log) -> tuple[float | None, list[float]]:
    """As `_ranks`, of all gaps between tokens."""
    lowest, counts = gap_counts(log)
    gaps = int(counts.sum())
    if not gaps:
        return None, []
    places = [_place(q, gaps - 1) for q in PERCENTILES]
    ranks = [rank for low, high, _ in places for rank in (low, high)]
    at = gaps_at(log, lowest, counts, ranks)
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


def _batch(requests: OfRequests, steps: OfSteps, samples: _Samples) -> list[Metric]:
    sampled = "mean of samples at a fixed interval, within the makespan"
    means = {"running": sampled, "waiting": f"left waiting by a step's scheduling; {sampled}"}
    peaks = {"running": steps.running_peak, "waiting": steps.waiting_peak}
    rows = [
        Metric("steps", "Steps", "", "engine steps", steps.steps),
        Metric(
            "prefill_tokens",
            "Prefilled",
            "tokens",
            "recomputation included",
            steps.prefill_tokens,
        ),
        Metric(
            "decode_tokens",
            "Decoded",
            "tokens",
            "tokens sampled by decode steps",
            steps.decode_tokens,
        ),
        Metric(
            "num_preemptions",
            "Preemptions",
            "",
            "times a running request lost its memory",
            requests.preemptions,
        ),
        Metric(
            "preempted_requests",
            "Victims",
            "requests",
            "requests preempted at least once",
            requests.preempted,
        ),
        Metric(
            "recomputed_tokens",
            "Recomputed",
            "tokens",
            "KV of tokens lost to preemption, to be computed again",
            requests.recomputed_tokens,
        ),
        Metric(
            "swapped_bytes",
            "Swapped",
            "bytes",
            "KV moved to the host and back by preemption, per GPU",
            requests.swapped_bytes,
        ),
    ]
    for name, peak in peaks.items():
        rows += [
            Metric(
                f"{name}_mean",
                f"{name.capitalize()} mean",
                "requests",
                means[name],
                samples.mean(name),
            ),
            Metric(
                f"{name}_peak",
                f"{name.capitalize()} peak",
                "requests",
                "largest at any step",
                peak,
            ),
        ]
    return rows


def _prefix(requests: OfRequests, samples: _Samples) -> list[Metric]:
    found, asked = requests.cached_tokens, requests.admitted_prompt_tokens
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
            samples.mean("cached_bytes"),
        ),
    ]


def _memory(steps: OfSteps, log: Log, capacity: int) -> list[Metric]:
    t = log.timeline
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
    used = sum((t[name][busy] for name in USED), start=np.zeros(int(busy.sum()), dtype=np.int64))
    taken = used > 0
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
            steps.used_peak_bytes,
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
    due = [reached(times, log.interval_s) for times in (time_s, ends)]
    found: NDArray[np.int64] = np.maximum(due[1] - due[0], 1)
    return found


def reached(time_s: Column, interval_s: float) -> NDArray[np.int64]:
    """The last sampling instant at or before each time. Of a time that is one, the quotient is off
    by no more than its roundings."""
    passed = time_s / interval_s
    found: NDArray[np.int64] = np.floor(passed + 4 * np.spacing(passed)).astype(np.int64)
    return found


def _mean(
    values: NDArray[np.float64] | NDArray[np.int64], weights: NDArray[np.int64]
) -> float | None:
    if not len(values):
        return None
    if (weights == 1).all():
        return float(values.mean())
    weighed = np.multiply(values, weights, dtype=np.float64)
    return float(weighed.sum() / weights.sum(dtype=np.float64))  # np.average, without its checks
