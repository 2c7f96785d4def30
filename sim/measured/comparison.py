"""Prediction beside measurement: every metric of both by one formula, and the signed error."""

from dataclasses import dataclass

import numpy as np

from sim.engine.record import FINISHED
from sim.measured.run import Measured
from sim.run.simulation import Run
from workloads.errors import InputError
from workloads.schema import Floats, Ints

PERCENTILES = (50, 90, 99)
LATENCIES = {
    "ttft_s": ("TTFT", "s", "first token − arrival"),
    "tpot_s": ("TPOT", "s", "(E2E − TTFT) ÷ (output tokens − 1)"),
    "e2el_s": ("E2E", "s", "last token − arrival"),
}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Per cent, either way."""

    mean: float = 1.0
    percentile: float = 2.0
    makespan: float = 1.0
    running: float = 2.0

    def __post_init__(self) -> None:
        if not min(self.mean, self.percentile, self.makespan, self.running) >= 0:
            raise InputError("--tolerance-…: expected at least 0 per cent")


@dataclass(frozen=True, slots=True)
class Error:
    """One metric. `tolerance_pct` is None where it is shown but not judged."""

    name: str
    label: str
    unit: str
    formula: str
    measured: float
    predicted: float
    tolerance_pct: float | None

    @property
    def error_pct(self) -> float | None:
        """Signed: above 0 the prediction is too high."""
        return 100 * (self.predicted / self.measured - 1) if self.measured else None

    @property
    def within(self) -> bool:
        """Whether it is not judged or within its tolerance."""
        if self.tolerance_pct is None:
            return True
        error = self.error_pct
        return error is not None and abs(error) <= self.tolerance_pct


def compare(measured: Measured, run: Run, tolerance: Tolerance | None = None) -> list[Error]:
    """All metrics. Percentiles interpolate linearly; series are sampled once a second.

    Raises InputError where the prediction couldn't serve every request whole.
    """
    t = tolerance or Tolerance()
    requests = run.log.requests
    if lost := int((requests["status"] != FINISHED).sum()):
        raise InputError(
            f"{measured.name}: {lost} of its requests don't fit the predicted engine whole; "
            "expected its own context limit and KV blocks in meta.json"
        )
    arrival = measured.trace.arrival_s
    output = measured.output_tokens
    mine = _latencies(arrival, run_stamp(run, "first_token_s"), run_stamp(run, "finish_s"), output)
    real = _latencies(arrival, measured.first_token_s, measured.last_token_s, output)
    errors: list[Error] = []
    for name, (label, unit, formula) in LATENCIES.items():
        a, b = real[name], mine[name]
        errors.append(
            Error(f"{name}_mean", f"{label} mean", unit, formula, _mean(a), _mean(b), t.mean)
        )
        for q in PERCENTILES:
            pair = float(np.percentile(a, q)), float(np.percentile(b, q))
            errors.append(
                Error(f"{name}_p{q}", f"{label} p{q}", unit, formula, *pair, t.percentile)
            )
    spans = (
        float(measured.last_token_s.max() - arrival[0]),
        float(requests["finish_s"].max() - arrival[0]),
    )
    errors.append(
        Error("makespan_s", "makespan", "s", "last token − first arrival", *spans, t.makespan)
    )
    tokens = int(output.sum())
    errors.append(
        Error(
            "output_throughput",
            "output",
            "tok/s",
            "output tokens ÷ makespan",
            tokens / spans[0],
            tokens / spans[1],
            None,
        )
    )
    if not len(measured.series["t"]):
        return errors
    series = predicted_series(run, measured.series["t"])
    for name, limit in (("running", t.running), ("waiting", None)):
        errors.append(
            Error(
                f"{name}_mean",
                f"{name} mean",
                "requests",
                f"mean over the recorded seconds of requests {name}",
                _mean(measured.series[name]),
                _mean(series[name]),
                limit,
            )
        )
    if measured.records_kv:
        pair = _mean(measured.series["kv_cache_pct"]), _mean(series["kv_cache_pct"])
        what = "mean over the recorded seconds of KV blocks in use"
        errors.append(Error("kv_use_mean", "KV use mean", "%", what, *pair, None))
    return errors


def run_stamp(run: Run, name: str) -> Floats:
    """A column of seconds of the run's requests."""
    return np.asarray(run.log.requests[name], dtype=np.float64)


def predicted_series(run: Run, seconds: Floats) -> dict[str, Floats]:
    """What a recorder would have seen at these times: the first sample at or after each."""
    line = run.log.timeline
    at = np.searchsorted(line["time_s"], seconds, side="left")
    ended = at >= len(line["time_s"])
    at = np.minimum(at, len(line["time_s"]) - 1)
    used = 100 * (1 - line["free_bytes"] / run.setup.pool.capacity_bytes)
    columns = {"running": line["running"], "waiting": line["waiting"], "kv_cache_pct": used}
    return {name: np.where(ended, 0.0, values[at]) for name, values in columns.items()}


def _latencies(arrival: Floats, first: Floats, last: Floats, output: Ints) -> dict[str, Floats]:
    several = output > 1
    return {
        "ttft_s": first - arrival,
        "tpot_s": (last - first)[several] / (output[several] - 1),
        "e2el_s": last - arrival,
    }


def _mean(values: Floats) -> float:
    return float(values.mean())
