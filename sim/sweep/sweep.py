"""A sweep: every run of a grid into one table, each of them once in a folder's life."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sim.policy import plugins
from sim.run.options import RunOptions
from sim.sweep.evaluate import Row, Work
from sim.sweep.fingerprint import key_of, self_contained, settings_of, trace_digest
from sim.sweep.grid import Grid, Value
from sim.sweep.journal import Journal
from sim.sweep.local import Task, run_here
from sim.sweep.table import Columns, columns_of
from workloads.errors import InputError
from workloads.schema import Trace

Runner = Callable[[Work, Trace, Sequence[Task]], Iterator[tuple[int, Row]]]
"""Rows by the tasks' numbers, in any order, from wherever they are made."""


@dataclass(frozen=True)
class Run:
    """A run of the plan: its name, what varies in it, and its settings as a table has them."""

    key: str
    point: dict[str, Value]
    settings: dict[str, Any]


def plan_of(
    grid: Grid, trace: Trace, sample: int | None = None, seed: int = 0
) -> tuple[Work, list[Run]]:
    """What the grid's runs share, and each once: combinations that resolve alike are one run.

    Raises InputError where a file that options name can't be read.
    """
    digest = trace_digest(trace)
    work = work_of(grid)
    runs: dict[str, Run] = {}
    for point in grid.points(sample, seed):
        run = run_of(grid, work, digest, point)
        runs.setdefault(run.key, run)
    return work, list(runs.values())


def work_of(grid: Grid) -> Work:
    """What the grid's runs share. Raises InputError where a file can't be read."""
    base = self_contained(grid.base)
    brought = dict(plugins.files.policies), dict(plugins.costs)
    return Work(base, *brought, frozenset(plugins.told))


def run_of(grid: Grid, work: Work, digest: str, point: dict[str, Value]) -> Run:
    """One combination, over the trace of that digest. Raises InputError likewise."""
    base = work.base
    point = {name: _contained(base, name, value) for name, value in point.items()}
    key = key_of(digest, replace(grid, base=base).options(point))
    return Run(key, point, settings_of(grid.options(point)))


def _contained(base: RunOptions, name: str, value: Value) -> Value:
    if name not in ("model", "cost", "profile"):
        return value
    return getattr(self_contained(replace(base, **{name: value})), name)


def run_sweep(
    plan: Sequence[Run],
    work: Work,
    trace: Trace,
    journal: Journal,
    runner: Runner | None = None,
    done: Callable[[Run], None] = lambda run: None,
) -> Columns:
    """The table of all runs of the plan, in its order; those in the journal are not run again.

    Raises InputError where no run at all could be made, with the first one's reason.
    """
    tasks = [(number, run.point) for number, run in enumerate(plan) if run.key not in journal.rows]
    for number, row in (runner or _in_this_process)(work, trace, tasks):
        journal.add(plan[number].key, row)
        done(plan[number])
    rows = [run.settings | journal.rows[run.key] for run in plan]
    if all(row["error"] is not None for row in rows):
        raise InputError(rows[0]["error"])
    return columns_of([{"trace": trace.name, **row} for row in rows])


def _in_this_process(work: Work, trace: Trace, tasks: Sequence[Task]) -> Iterator[tuple[int, Row]]:
    return run_here(work, trace, tasks, jobs=1)
