"""Every metric of a run computed again, from its tables and its formula's words."""

from math import isclose, nan
from statistics import fmean

import numpy as np

from reports.files import MEMORY
from tests.sim.histories.made import Outcome

Value = float | int | None


def metrics_are_those_of_the_tables(out: Outcome) -> None:
    """Each to 1e-9; none is left out."""
    again = {**counts(out), **rates(out), **latencies(out), **batch(out), **memory(out)}
    assert set(again) == set(out.metrics), set(again) ^ set(out.metrics)
    for name, value in out.metrics.items():
        mine = again[name]
        if value is None or mine is None:
            assert value is mine, (name, value, mine)
        else:
            assert isclose(value, mine, rel_tol=1e-9, abs_tol=1e-12), (name, value, mine)


def rows(table: dict[str, np.ndarray]) -> list[dict[str, float]]:
    names = list(table)
    columns = (table[name].tolist() for name in names)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def mean(values: list[float]) -> Value:
    return fmean(values) if values else None


def counts(out: Outcome) -> dict[str, Value]:
    requests = rows(out.log.requests)
    found: dict[str, Value] = {"requests": len(requests)}
    for code, name in enumerate(("finished", "truncated", "refused", "unfinished")):
        found[name] = len([r for r in requests if r["status"] == code])
    cut = [r["output_tokens"] - r["generated_tokens"] for r in requests if r["status"] == 1]
    found["truncated_tokens"] = sum(cut)
    return found


def span(out: Outcome) -> tuple[float, float]:
    """First arrival, and the end of the last step."""
    asked = [r["arrival_s"] for r in rows(out.log.requests) if r["arrival_s"] == r["arrival_s"]]
    ends = [s["end_s"] for s in rows(out.log.steps)]
    return min(asked, default=0.0), max(ends, default=0.0)


def rates(out: Outcome) -> dict[str, Value]:
    start, end = span(out)
    makespan = end - start if len(out.log.steps["steps"]) else 0.0
    requests = rows(out.log.requests)
    done = [r for r in requests if r["status"] in (0, 1)]
    generated = sum(r["generated_tokens"] for r in requests)
    busy = sum(s["end_s"] - s["start_s"] for s in rows(out.log.steps))
    amounts = {
        "request_throughput": len(done),
        "output_throughput": generated,
        "total_token_throughput": generated + sum(r["prompt_tokens"] for r in done),
        "busy_share": 100 * busy,
    }
    found: dict[str, Value] = {k: v / makespan if makespan else None for k, v in amounts.items()}
    return {"makespan_s": makespan or None, **found}


def latencies(out: Outcome) -> dict[str, Value]:
    values: dict[str, list[float]] = {name: [] for name in ("ttft", "tpot", "e2el", "queue", "itl")}
    for r in rows(out.log.requests):
        first, last = r["first_token_s"] - r["arrival_s"], r["finish_s"] - r["arrival_s"]
        gaps = r["generated_tokens"] - 1
        values["ttft"].append(first)
        values["e2el"].append(last)
        values["queue"].append(r["first_scheduled_s"] - r["arrival_s"])
        values["tpot"].append((last - first) / gaps if gaps > 0 else nan)
    for s in rows(out.log.steps):
        for j in range(int(s["steps"])):
            values["itl"] += [s["first_step_s"] + j * s["step_growth_s"]] * int(s["decodes"])
    values["itl"] += out.log.resume_gaps_s.tolist()
    found: dict[str, Value] = {}
    for name, every in values.items():
        known = [value for value in every if value == value]
        for short, q in (("mean", None), ("p50", 50), ("p90", 90), ("p99", 99)):
            statistic = None
            if known:
                statistic = 1e3 * (fmean(known) if q is None else float(np.percentile(known, q)))
            found[f"{name}_ms_{short}"] = statistic
    return found


def seen(out: Outcome) -> list[dict[str, float]]:
    """The timeline's rows, each as often as it stands for an instant at which samples are due: for
    those after it up to the next row, and once at least."""
    line, interval = rows(out.log.timeline), round(out.history.interval_s * 1e18)
    times = [t["time_s"] for t in line]
    ends = [*times[1:], max([out.log.end_s, *times[-1:]])]
    found = []
    for row, time, end in zip(line, times, ends, strict=True):
        found += [row] * max(1, passed(end, interval) - passed(time, interval))
    return found


def passed(time_s: float, interval_as: int) -> int:
    """How many instants after the first are at this time or before. Times are attoseconds, divided
    and rounded once; so are the instants here, and rounding keeps the order."""
    number = round(time_s * 10**18 / interval_as)
    return number if number * interval_as / 10**18 <= time_s else number - 1


def batch(out: Outcome) -> dict[str, Value]:
    requests, steps = rows(out.log.requests), rows(out.log.steps)
    start, end = span(out)
    samples = [t for t in seen(out) if start <= t["time_s"] <= end]
    found: dict[str, Value] = {
        "steps": sum(s["steps"] for s in steps),
        "prefill_tokens": sum(s["prefill_tokens"] for s in steps),
        "decode_tokens": sum(s["steps"] * s["decodes"] for s in steps),
        "num_preemptions": sum(r["preemptions"] for r in requests),
        "preempted_requests": len([r for r in requests if r["preemptions"]]),
        "recomputed_tokens": sum(r["recomputed_tokens"] for r in requests),
        "swapped_bytes": sum(r["swapped_bytes"] for r in requests),
        "prefix_hit_tokens": (hits := sum(r["cached_tokens"] for r in requests)),
        "kv_cached_mean_bytes": mean([t["cached_bytes"] for t in samples]),
    }
    admitted = [r for r in requests if r["first_scheduled_s"] == r["first_scheduled_s"]]
    prompts = sum(r["prompt_tokens"] for r in admitted)
    found["prefix_hit_ratio"] = 100 * hits / prompts if prompts else None
    for name in ("running", "waiting"):
        found[f"{name}_mean"] = mean([t[name] for t in samples])
        found[f"{name}_peak"] = max([s[name] for s in steps], default=0)
    return found


def memory(out: Outcome) -> dict[str, Value]:
    capacity = out.history.pool.capacity_bytes
    busy = [t for t in seen(out) if t["running"]]
    found: dict[str, Value] = {
        f"kv_{name}_share_mean": mean([100 * t[f"{name}_bytes"] / capacity for t in busy])
        for name in MEMORY
    }
    used = [held(t) for t in busy]
    live = [t["live_bytes"] / n for t, n in zip(busy, used, strict=True) if n]
    shares = mean(live), mean([n / capacity for n in used])
    found["kv_live_of_used_mean"], found["kv_cache_usage_perc"] = (
        None if share is None else 100 * share for share in shares
    )
    found["kv_used_peak_bytes"] = max([held(s) for s in rows(out.log.steps)], default=0)
    return found


def held(row: dict[str, float]) -> float:
    return sum(row[f"{use}_bytes"] for use in ("live", "reserved", "internal", "metadata"))
