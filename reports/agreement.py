"""Predicted against measured: which runs pair, how far their metrics are apart, and in one sentence
what to make of it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from reports.formats import listed
from reports.language import retold, tr
from reports.load import Run
from reports.ranking import one_trace
from reports.validation import Row, Validation

JUDGED = (
    *(f"{name}_ms_{s}" for name in ("ttft", "tpot", "e2el") for s in ("mean", "p50", "p90", "p99")),
    "makespan_s",
    "running_mean",
    "waiting_mean",
    "kv_cache_usage_perc",
)


TRUSTED = 2.0
"""Per cent that a time may be off and still be believed."""


class Pair(NamedTuple):
    """A simulated and a measured run of the same requests."""

    predicted: Run
    measured: Run


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


def judged(found: Sequence[Pair], validation: Validation | None) -> tuple[Row, ...]:
    """The judged rows, or where nothing was judged the errors of the metrics."""
    if validation is not None:
        return validation.rows
    rows = []
    for pair in found:
        for metric in pair.predicted.info.metrics:
            if metric.name not in JUDGED:
                continue
            measured = pair.measured.value(metric.name)
            error = (
                100 * (metric.value / measured - 1)
                if metric.value is not None and measured
                else None
            )
            rows.append(
                Row(
                    policy=pair.predicted.label,
                    name=metric.name,
                    label=metric.label,
                    unit=metric.unit,
                    predicted=metric.value,
                    measured=measured,
                    error_percent=error,
                    spread_percent=None,
                    tolerance_percent=None,
                    passed=None,
                )
            )
    return tuple(rows)


def sentence(rows: Sequence[Row]) -> str:
    """How far apart, in one sentence."""
    means, percentiles = _times(rows)
    if means and not percentiles:
        return tr("Predicted latency means are within {means} % of those measured.",
                  means=f"{max(means):.1f}")  # fmt: skip
    if not means:
        return tr("Too little was measured to say how far the prediction is off.")
    return tr(
        "Predicted latency means are within {means} % of those measured, percentiles within "
        "{percentiles} %.",
        means=f"{max(means):.1f}",
        percentiles=f"{max(percentiles):.1f}",
    )


def _times(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Sizes of the errors of latencies in per cent: of means, of percentiles."""
    latencies = [row for row in rows if re.search(r"ttft|tpot|e2el", row.name)]
    known = [(row.name, abs(row.error_percent)) for row in latencies
             if row.error_percent is not None]  # fmt: skip
    means = [error for name, error in known if "_mean" in name]
    percentiles = [error for name, error in known if re.search(r"_p\d+|median", name)]
    return means, percentiles


def belief(rows: Sequence[Row]) -> tuple[str, ...]:
    """What the tolerances say, and so what to believe."""
    said = []
    bytes_rows = [row for row in rows if row.unit == "bytes" and row.error_percent is not None]
    if bytes_rows and all(row.error_percent == 0 for row in bytes_rows):
        said.append(tr("KV memory agrees to the byte."))
    counted = [row for row in rows if row.passed is not None]
    within = [row for row in counted if row.passed]
    if counted:
        said.append(
            tr(
                "{within} of {all} judged metrics are within tolerance.",
                within=f"{len(within):,}",
                all=f"{len(counted):,}",
            )
        )
    means, percentiles = _times(rows)
    if means and percentiles:
        worst_mean, worst = max(means), max(percentiles)
        said.append(
            tr("Believe means and single percentiles alike.")
            if worst <= TRUSTED
            else tr("Believe memory and rates, not single percentiles.")
            if worst_mean <= TRUSTED
            else tr("Believe what is counted, not the times.")
        )
    if missing := [retold(row.label) for row in rows if row.measured is None]:
        said.append(tr("Not recorded: {labels}.", labels=listed(missing)))
    return tuple(said)
