"""Prediction beside measurement: every metric of both by one formula, and the signed error."""

from dataclasses import dataclass, replace

from sim.engine.record import FINISHED
from sim.measured.log import as_run
from sim.measured.run import Measured
from sim.measured.series import reported_at
from sim.run.metrics import compute_metrics
from sim.run.simulation import Run
from workloads.errors import InputError

LATENCIES = ("ttft_ms", "tpot_ms", "e2el_ms")
PERCENTILES = ("p50", "p90", "p99")


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
    """The metrics that both runs have, as `sim.run.metrics` computes them of either.

    Raises InputError where the prediction couldn't serve every request whole.
    """
    return errors(*side_by_side(measured, run), tolerance)


def side_by_side(measured: Measured, run: Run) -> tuple[Run, Run]:
    """Both in the same tables, sampled at the same instants: what is compared and reported.

    Raises InputError where the prediction couldn't serve every request whole.
    """
    if lost := int((run.log.requests["status"] != FINISHED).sum()):
        raise InputError(
            f"{measured.name}: {lost} of its requests don't fit the predicted engine whole; "
            "expected its own context limit and KV blocks (--max-model-len, --num-gpu-blocks)"
        )
    capacity = run.setup.pool.capacity_bytes
    log = run.log._replace(timeline=reported_at(run.log, measured.series["t"], capacity))
    setup = replace(run.setup, label="predicted")
    predicted = replace(run, setup=setup, log=log, metrics_list=compute_metrics(log, capacity))
    return as_run(measured, run), predicted


def errors(measured: Run, predicted: Run, tolerance: Tolerance | None = None) -> list[Error]:
    """Of each compared metric that both runs define."""
    t = tolerance or Tolerance()
    limits: dict[str, float | None] = {}
    for name in LATENCIES:
        limits[f"{name}_mean"] = t.mean
        limits |= {f"{name}_{q}": t.percentile for q in PERCENTILES}
    limits |= {"makespan_s": t.makespan, "output_throughput": None}
    limits |= {"running_mean": t.running, "waiting_mean": None}
    if (measured.log.timeline["live_bytes"] > 0).any():  # else KV use was not recorded
        limits["kv_cache_usage_perc"] = None
    known = {metric.name: metric for metric in measured.metrics_list}
    found: list[Error] = []
    for name, limit in limits.items():
        metric, guess = known[name], predicted[name]
        if metric.value is not None and guess is not None:
            what = (metric.label, metric.unit, metric.formula)
            found.append(Error(name, *what, float(metric.value), float(guess), limit))
    return found
