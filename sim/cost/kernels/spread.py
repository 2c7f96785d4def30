"""How far a profile's own numbers may be off, and what that makes of the time of a run's steps.

Two sources are in the rows. Between measured sizes: each inner row is predicted from its neighbours
without it; a gap twice as wide errs four times as much as the gap itself, for linear interpolation.
Between measurements: batches of equal contexts were timed twice, once for the attention table and
once beside the unequal ones. Both are a kernel's own, so that those of different kernels add as
independent errors do; within a kernel every size is taken to err alike.

The rest is named below: numbers fitted to a run, numbers nobody measured, and what all kernels have
in common.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import hypot
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.cost.kernels.grid import Grid, Line
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import Profile, Row

NORMAL = 1.4826
"""Standard deviations in a median absolute deviation of a normal distribution."""
GAP = 4.0
LEAST = 0.003
"""Of three repetitions of a kernel, at least: clocks and timers. As much as predictions of requests
that a fit has not seen are off."""
FITTED = 0.05
"""Of sums over GPUs fitted to a run: several times what fitting states, which takes requests as
independent."""
ASSUMED = 1.0
"""Of sums over GPUs that nobody measured: on the one machine that tells, they took 2.7 times what
is assumed."""
COMPUTED = 0.47
"""Of kernels counted as bytes over bandwidth: so far are those of the shipped profiles from it
(docs/accuracy.md)."""
UNPROVEN = 0.025
"""Of all kernels together, where no run was held against the profile: in the two that were, kernels
took 3.5 % less than when timed one by one, and as much. The root of the mean square of these."""


def spreads(profile: Profile) -> dict[str, float]:
    """One standard deviation by kernel, relative: each kernel's own."""
    found: dict[str, float] = {}
    again = repeat_spread(profile)
    computed = profile.meta.get("computed", ())
    for kernel, rows in profile.rows.items():
        if kernel.startswith(("skew_", "mixed_")):
            continue
        between = _typical(_left_out(rows)) / GAP
        found[kernel] = COMPUTED if kernel in computed else hypot(between, again, LEAST)
    if _fitted_sums(profile):
        found["all_reduce"] = FITTED
    elif "all_reduce" not in found:
        found["all_reduce"] = LEAST if "all_reduce" in profile.meta else ASSUMED
    return found


def common_spread(profile: Profile) -> float:
    """What errors of all kernels have in common, relative, one standard deviation."""
    if "kernel_time" in profile.meta:
        return LEAST
    return 0.0 if _fitted_sums(profile) else UNPROVEN  # such sums took up what was left


def _fitted_sums(profile: Profile) -> bool:
    said = str(profile.meta.get("all_reduce_source", profile.meta.get("all_reduce", ("", ""))[-1]))
    return said.startswith("fitted")


def repeat_spread(profile: Profile) -> float:
    """Of the same batch timed twice; 0 where a profile has no skew rows."""
    rows = profile.rows.get("skew_mean", [])
    if not rows:
        return 0.0
    grid = Grid((row[:4], row[4]) for row in profile.rows["attention"])
    pairs = [(grid.decode(n, mean), time) for _, _, n, mean, time in rows]
    # Those rows hold the sum of several repetitions, the table their mean: a constant factor.
    factor = median(time / guess for guess, time in pairs)
    apart = [abs(factor * guess / time - 1) for guess, time in pairs]
    return _typical(apart) / 2**0.5  # half the variance is of each of the two


def shares(
    cost: KernelTable, steps: Mapping[str, NDArray[np.float64] | NDArray[np.int64]]
) -> dict[str, float]:
    """Of the time in a run's steps (its log's table), by kernel; attention has what the others
    leave."""
    prefilled = steps["prefill_tokens"]
    sizes = np.stack((steps["decodes"] + prefilled, steps["decodes"] + (prefilled > 0)), axis=1)
    sizes, kind = np.unique(sizes, axis=0, return_inverse=True)
    times = np.bincount(kind.ravel(), steps["steps"])
    total = 1e6 * float((steps["end_s"] - steps["start_s"]).sum())
    found: dict[str, float] = {}
    for (tokens, sequences), often in zip(sizes.tolist(), times.tolist(), strict=True):
        for kernel, us in cost.parts_us(tokens, sequences).items():
            found[kernel] = found.get(kernel, 0.0) + often * us / total
    return {**found, "attention": max(1 - sum(found.values()), 0.0)}


def deviation(profile: Profile, shares: dict[str, float]) -> float:
    """One standard deviation of the time of such steps, relative.

    Kernels' own errors are independent of each other: their squares add. What they have in common
    adds before it is squared.
    """
    own = spreads(profile)
    kernels = sum(share for kernel, share in shares.items() if kernel != "all_reduce")
    apart = [share * own[kernel] for kernel, share in shares.items()]
    return hypot(*apart, kernels * common_spread(profile))


def slower(profile: Profile, factor: float) -> Profile:
    """Every time so many times as long, sums over GPUs too."""
    rows: dict[str, list[Row]] = {
        kernel: [(a, b, c, d, time * factor) for a, b, c, d, time in own]
        for kernel, own in profile.rows.items()
    }
    meta: dict[str, Any] = dict(profile.meta)
    if "all_reduce" in meta:
        numbers, source = meta["all_reduce"]
        by_key = {"latency": factor, "bandwidth": 1 / factor, "switch": 1.0}
        moved = {key: value * by_key[key.split("_")[-1]] for key, value in numbers.items()}
        meta["all_reduce"] = (moved, source)
    if "kernel_overlap" in meta:
        seconds, source = meta["kernel_overlap"]
        meta["kernel_overlap"] = (seconds * factor, source)
    return replace(profile, rows=rows, meta=meta)


def _left_out(rows: Iterable[Row]) -> Iterator[float]:
    """Relative errors of rows predicted from their neighbours along one axis at a time."""
    table = list(rows)
    for axis in (0, 1, 2, 3):
        lines: dict[tuple[int, ...], list[tuple[int, float]]] = {}
        for row in table:
            sizes = row[:4]
            rest = sizes[:axis] + sizes[axis + 1 :]
            lines.setdefault(rest, []).append((sizes[axis], row[4]))
        for points in lines.values():
            points.sort()
            for (a, low), (b, time), (c, high) in zip(points, points[1:], points[2:], strict=False):
                if time and 0 < a < b < c:
                    yield abs(Line([(a, low), (c, high)]).at(b) / time - 1)


def _typical(errors: Iterable[float]) -> float:
    found = list(errors)
    return NORMAL * median(found) if found else 0.0
