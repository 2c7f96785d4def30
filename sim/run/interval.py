"""Prediction intervals, to first order: what is known to vary, times what a metric makes of it.

How much a metric answers to the time of steps is measured: the run again with every time a little
longer, and a little shorter. Queues amplify the errors of all kernels alike, so that one pair of
runs stands for all; how far the time of this run's steps may be off is `sim.cost.kernels.spread`'s.
The two runs tell a second thing: the schedule turns out differently with every small change, which
moves a metric by chance. As far as their middle is from the run between them, so far does that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import hypot, sqrt
from typing import NamedTuple

from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import Profile
from sim.cost.kernels.spread import LEAST, deviation, shares, slower
from sim.run.simulation import Run, Setup, execute
from sim.units import deviations
from workloads.errors import InputError

STEP = 0.02
"""Of every time, either way: several times what chance moves, and less than a queue bends at."""
LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "e2el_ms")

Metrics = Mapping[str, float | int | None]


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


def expect_known(setup: Setup, level: int) -> tuple[float, Profile]:
    """How many standard deviations a level is, and whose rows tell how far off a step may be.

    Raises InputError for a level that isn't known, and where nobody knows that of the run's steps.
    """
    z = deviations(level)
    if setup.lockstep:
        raise InputError(
            "--interval: nobody knows how far off a step of data-parallel ranks is; "
            "expected it without --data-parallel"
        )
    if setup.profile is None:
        timed = setup.cost_table is not None
        whose = "step times don't say their own" if timed else "a roofline's is not known"
        raise InputError(
            f"--interval: errors come from a kernel profile's rows; {whose}; expected --cost table "
            "with a profile"
        )
    return z, setup.profile


def interval(
    setup: Setup,
    metrics: Metrics,
    level: int = 90,
    seen: Callable[[Run], Metrics] = values_of,
) -> Interval:
    """Bounds around a run's metrics by name, as `seen` has them of a run.

    Raises InputError as `expect_known` does.
    """
    z, profile = expect_known(setup, level)
    fast, slow = (
        execute(replace(setup, profile=slower(profile, 1 + step))) for step in (-STEP, STEP)
    )
    assert isinstance(slow.cost, KernelTable)
    off = deviation(profile, shares(slow.cost, slow.log.steps)) / STEP
    trio = {
        name: (low, float(own), high)
        for name, own in metrics.items()
        if own is not None
        and (low := _known(seen(fast), name)) is not None
        and (high := _known(seen(slow), name)) is not None
    }
    chance = {kind: _chance(trio, kind) for kind in (True, False)}
    bounds: dict[str, Bounds] = {}
    for name, (low, own, high) in trio.items():
        margin = z * hypot(off * (high - low) / 2, chance[_is_mean(name)] * own)
        bounds[name] = Bounds(own - margin, own + margin)
    return Interval(level, bounds)


def _known(metrics: Metrics, name: str) -> float | None:
    value = metrics[name]
    return None if value is None else float(value)


def _is_mean(name: str) -> bool:
    return not name.endswith(("_p50", "_p90", "_p99"))


def _chance(trio: dict[str, tuple[float, float, float]], mean: bool) -> float:
    """One standard deviation of what chance moves, relative: of latencies' means, or percentiles.

    Three runs that chance moves by as much: the middle of two is off the third with 1.5 times the
    variance. A real run is off the predicted one with twice the variance, for it moves both.
    """
    off = [
        ((low + high) / 2 / own - 1) ** 2
        for name, (low, own, high) in trio.items()
        if name.startswith(LATENCIES) and _is_mean(name) == mean and own
    ]
    return sqrt(2) * (max(sqrt(sum(off) / len(off) / 1.5), LEAST) if off else LEAST)
