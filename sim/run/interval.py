"""Prediction intervals: a run again with every time longer, and shorter, by what is known to vary.

All times move together: errors of one profile have one cause more often than not, and queues
amplify them the same way. What comes out is therefore wide rather than narrow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from sim.cost.kernels.spread import shifted
from sim.run.simulation import Run, Setup, execute
from workloads.errors import InputError

QUANTILES = {80: 1.2816, 90: 1.6449, 95: 1.9600, 99: 2.5758}
"""Standard deviations either side of the mean of a normal distribution, by per cent within."""
SCHEDULE = 0.01
"""Of every metric: what one request more or less in a batch moves, which no table tells."""


def values_of(run: Run) -> dict[str, float | int | None]:
    """Its metrics by name."""
    return {metric.name: metric.value for metric in run.metrics_list}


class Bounds(NamedTuple):
    """Of one metric, in its unit."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of every metric that has a value, at a level in per cent."""

    level: int
    bounds: dict[str, Bounds]

    def holds(self, name: str, value: float) -> bool:
        """Whether the metric's bounds hold that value."""
        low, high = self.bounds[name]
        return low <= value <= high


def interval(setup: Setup, metrics: Mapping[str, float | int | None], level: int = 90) -> Interval:
    """Bounds around a run's metrics by name. Raises InputError without a kernel profile."""
    if level not in QUANTILES:
        levels = ", ".join(map(str, QUANTILES))
        raise InputError(f"--interval {level}: expected one of {levels} per cent")
    if setup.profile is None:
        raise InputError(
            "--interval: comes from a kernel profile's rows; a roofline's error is not known, "
            "expected --cost table"
        )
    profile, z = setup.profile, QUANTILES[level]
    others = [execute(replace(setup, profile=shifted(profile, sign * z))) for sign in (-1, 1)]
    bounds: dict[str, Bounds] = {}
    for name, own in metrics.items():
        values = [own, *(other[name] for other in others)]
        known = [float(value) for value in values if value is not None]
        if len(known) == len(values):
            margin = z * SCHEDULE * abs(known[0])
            bounds[name] = Bounds(min(known) - margin, max(known) + margin)
    return Interval(level, bounds)
