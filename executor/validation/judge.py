"""Predicted against measured, metric by metric: signed errors, tolerances, spread, a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sim.run.simulation import Run


@dataclass(frozen=True)
class Judged:
    """One metric of one policy. Errors are (predicted - measured) / measured, in percent."""

    policy: str
    name: str
    label: str
    unit: str
    predicted: float | None  # median of the rounds
    measured: float | None  # median of the rounds
    error_percent: float | None  # median of the rounds' own errors
    spread_percent: float | None  # (largest - smallest) / median of those measured
    tolerance_percent: float | None  # None: shown, not judged
    passed: bool | None  # None: not judged


FREE_RUN = (
    ("output_throughput", 10.0),
    ("ttft_ms_mean", 10.0),
    ("tpot_ms_mean", 10.0),
    ("e2el_ms_mean", None),
    ("makespan_s", None),
    ("busy_share", None),
    ("running_mean", None),
    ("running_peak", None),
    ("num_preemptions", None),
    ("kv_live_share_mean", None),
    ("kv_used_peak_bytes", None),
)
"""Metrics of a free run and how far in percent the prediction may be off."""

LOCKSTEP_PERCENT = 5.0


def judge(
    policy: str,
    name: str,
    label: str,
    unit: str,
    pairs: Sequence[tuple[float | None, float | None]],
    tolerance_percent: float | None,
) -> Judged:
    """Judge (predicted, measured) of each round by the median of the rounds' own errors.

    What neither side defines is not judged.
    """
    predicted, measured = (_median(side) for side in zip(*pairs, strict=True))
    error = spread = None
    if measured is not None and predicted is not None:
        error = _median([percent(p - m, m) for p, m in pairs if p is not None and m is not None])
        known = [m for _, m in pairs if m is not None]
        spread = percent(max(known) - min(known), measured)
    passed: bool | None = None
    if tolerance_percent is not None and (measured is not None or predicted is not None):
        passed = error is not None and abs(error) <= tolerance_percent
    return Judged(
        policy, name, label, unit, predicted, measured, error, spread, tolerance_percent, passed
    )


def _median(values: Sequence[float | None]) -> float | None:
    """None where one of them is."""
    known = [value for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def percent(difference: float, of: float) -> float | None:
    """The difference as a share; None where something is compared with nothing."""
    if of:
        return 100 * difference / of
    return None if difference else 0.0


def judge_free_runs(policy: str, rounds: Sequence[tuple[Run, Run]]) -> list[Judged]:
    """The metrics of (simulated, measured) free runs, in a fixed order."""
    definitions = {metric.name: metric for metric in rounds[0][0].metrics_list}
    return [
        judge(
            policy,
            name,
            f"free: {definitions[name].label}",
            definitions[name].unit,
            [(predicted[name], measured[name]) for predicted, measured in rounds],
            tolerance,
        )
        for name, tolerance in FREE_RUN
    ]
