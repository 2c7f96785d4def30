"""How far a profile's own numbers may be off: from its rows alone, as a share of a kernel's time.

Two sources are in the rows. Between measured sizes: each inner row is predicted from its neighbours
without it; a gap twice as wide errs four times as much as the gap itself, for linear interpolation.
Between measurements: batches of equal contexts were timed twice, once for the attention table and
once beside the unequal ones. Numbers that were fitted are taken to be off by `FITTED`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import hypot
from statistics import median
from typing import Any

from sim.cost.kernels.grid import Grid, Line
from sim.cost.kernels.profile import Profile, Row

NORMAL = 1.4826
"""Standard deviations in a median absolute deviation of a normal distribution."""
GAP = 4.0
FITTED = 0.05
"""Several times the half-width that fitting states: it takes requests as independent."""
LEAST = 0.003
"""Of three repetitions of a kernel, at least: clocks and timers."""


def spreads(profile: Profile) -> dict[str, float]:
    """One standard deviation by kernel, relative."""
    found: dict[str, float] = {}
    again = repeat_spread(profile)
    for kernel, rows in profile.rows.items():
        if kernel.startswith(("skew_", "mixed_")):
            continue
        between = _typical(_left_out(rows)) / GAP
        fitted = FITTED if kernel == "all_reduce" and "all_reduce_source" in profile.meta else 0.0
        found[kernel] = max(hypot(between, again, LEAST), fitted)
    return found


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


def shifted(profile: Profile, deviations: float) -> Profile:
    """Every time that many standard deviations longer (or shorter, below 0), all together."""
    by_kernel = spreads(profile)
    rows: dict[str, list[Row]] = {}
    for kernel, own in profile.rows.items():
        like = "attention" if kernel.startswith(("skew_", "mixed_")) else kernel
        factor = 1 + deviations * by_kernel[like]
        rows[kernel] = [(a, b, c, d, time * factor) for a, b, c, d, time in own]
    meta: dict[str, Any] = dict(profile.meta)
    if "all_reduce" in meta:
        numbers, source = meta["all_reduce"]
        slow = 1 + deviations * FITTED
        moved = {
            key: value * slow if key.endswith("latency") else value / slow
            for key, value in numbers.items()
            if key != "switch"
        }
        meta["all_reduce"] = ({**numbers, **moved}, source)
    if "kernel_overlap" in meta:
        seconds, source = meta["kernel_overlap"]
        meta["kernel_overlap"] = (max(seconds * (1 - deviations * FITTED), 0.0), source)
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
