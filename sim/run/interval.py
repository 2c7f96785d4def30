"""Prediction intervals: a run again with every time longer, and shorter, by what is known to vary.

All times move together: errors of one profile have one cause more often than not, and queues
amplify them the same way. What comes out is therefore wide rather than narrow.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from sim.cost.kernels.spread import shifted
from sim.run.simulation import Run, Setup, execute
from workloads.errors import InputError

QUANTILES = {80: 1.2816, 90: 1.6449, 95: 1.9600, 99: 2.5758}
"""Standard deviations either side of the mean of a normal distribution, by per cent within."""
SCHEDULE = 0.01
"""Of every metric: what one request more or less in a batch moves, which no table tells."""


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


def interval(setup: Setup, run: Run, level: int = 90) -> Interval:
    """Bounds around a finished run's metrics. Raises InputError without a kernel profile."""
    if level not in QUANTILES:
        known = ", ".join(map(str, QUANTILES))
        raise InputError(f"--interval {level}: expected one of {known} per cent")
    if setup.profile is None:
        raise InputError(
            "--interval: comes from a kernel profile's rows; a roofline's error is not known, "
            "expected --cost table"
        )
    profile, z = setup.profile, QUANTILES[level]
    others = [execute(replace(setup, profile=shifted(profile, sign * z))) for sign in (-1, 1)]
    bounds: dict[str, Bounds] = {}
    for metric in run.metrics_list:
        values = [other[metric.name] for other in (run, *others)]
        known_values = [float(value) for value in values if value is not None]
        if len(known_values) == len(values):
            low, high = min(known_values), max(known_values)
            own = abs(known_values[0])
            bounds[metric.name] = Bounds(low - z * SCHEDULE * own, high + z * SCHEDULE * own)
    return Interval(level, bounds)
