"""Predicted against measured: which runs pair, how far their metrics are apart, and in one sentence
what to make of it."""

from collections.abc import Sequence
from typing import NamedTuple

from reports.language import tr
from reports.load import Run
from reports.ranking import one_trace

JUDGED = (
    *(f"{name}_ms_{s}" for name in ("ttft", "tpot", "e2el") for s in ("mean", "p50", "p90", "p99")),
    "makespan_s",
    "running_mean",
    "waiting_mean",
    "kv_cache_usage_perc",
)


class Pair(NamedTuple):
    """A simulated and a measured run of the same requests."""

    predicted: Run
    measured: Run


class Error(NamedTuple):
    """`percent` is (predicted − measured) ÷ measured; None where either is unknown or 0."""

    name: str
    label: str
    unit: str
    predicted: float | None
    measured: float | None

    @property
    def percent(self) -> float | None:
        if self.predicted is None or not self.measured:
            return None
        return 100 * (self.predicted / self.measured - 1)


def pairs(runs: Sequence[Run]) -> list[Pair]:
    """Each measured run with its prediction; empty unless all runs are in a pair."""
    measured = [run for run in runs if run.info.kind == "measured"]
    predicted = [run for run in runs if run.info.kind == "simulated"]
    found = []
    for run in measured:
        alike = [other for other in predicted if _alike(other, run)]
        if not alike:
            return []
        found.append(Pair(alike[0], run))
        predicted.remove(alike[0])
    return [] if predicted else found


def _alike(predicted: Run, measured: Run) -> bool:
    named = predicted.info.policy.spec == measured.info.policy.spec
    known = {predicted.info.name, measured.info.name} == {"predicted", "measured"}
    return (named or known) and one_trace([predicted, measured])


def errors(found: Sequence[Pair]) -> list[Error]:
    """The judged metrics of all pairs, those that were not recorded too."""
    rows = []
    for pair in found:
        own = {metric.name: metric for metric in pair.predicted.info.metrics}
        rows += [
            Error(name, own[name].label, own[name].unit, own[name].value, pair.measured.value(name))
            for name in JUDGED
            if name in own
        ]
    return rows


def sentence(rows: Sequence[Error]) -> str:
    """How far apart, in one sentence."""
    times = [row for row in rows if row.name.endswith(("_mean", "_p50", "_p90", "_p99"))
             and "_ms_" in row.name and row.percent is not None]  # fmt: skip
    means = [abs(row.percent or 0.0) for row in times if row.name.endswith("_mean")]
    percentiles = [abs(row.percent or 0.0) for row in times if not row.name.endswith("_mean")]
    if not means or not percentiles:
        return tr("Too little was measured to say how far the prediction is off.")
    return tr(
        "Predicted means are within {means} % of those measured, percentiles within "
        "{percentiles} %.",
        means=f"{max(means):.1f}",
        percentiles=f"{max(percentiles):.1f}",
    )
