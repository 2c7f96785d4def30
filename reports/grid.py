"""Runs that differ in two numbers: a sweep over a grid, of each policy."""

from collections.abc import Sequence
from typing import NamedTuple

from reports.load import Run
from reports.ranking import unlike
from reports.replays import replays
from reports.sweep import Axis, varying

Cells = dict[tuple[float, float], Run]


class Grid(NamedTuple):
    """Runs by (value across, value up), a grid a policy."""

    across: Axis
    up: Axis
    policies: dict[str, Cells]


def find_grid(runs: Sequence[Run]) -> Grid | None:
    """The grid that these runs are, if they are one: two values at least of each number, a run at
    most in each cell."""
    if len(runs) < 4 or unlike(runs) or any(run.info.kind == "measured" for run in runs):
        return None
    if replays(runs):
        return None
    axes = varying(runs)
    if len(axes) != 2 or len({run.info.device.name for run in runs}) > 1:
        return None
    up, across = axes
    policies: dict[str, Cells] = {}
    for run in runs:
        at = across.value(run), up.value(run)
        cells = policies.setdefault(run.info.policy.spec, {})
        if at[0] is None or at[1] is None or at in cells:
            return None
        cells[at[0], at[1]] = run
    return Grid(across, up, policies)
