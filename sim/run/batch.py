"""Several runs at once, each in a process of its own where that pays."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sim.policy import plugins
from sim.policy.spec import parts_of, spec_name
from sim.run.folder import write_run
from sim.run.parquet import Files
from sim.run.simulation import Setup, execute
from sim.run.workers import in_workers
from workloads.errors import InputError

REQUESTS_WORTH_A_PROCESS = 20_000
"""A worker costs a tenth of a second, in which a fifth of so many requests are simulated."""

SLOW = {"growing": 2.0, "prefix": 1.8, "virtual": 1.5, "sliding_window": 1.4, "preallocation": 1.3}
"""Multiples of paging's time that policies take, roughly (docs/performance.md)."""

Metrics = list[dict[str, Any]]


def run_all(
    setups: Sequence[Setup],
    folders: Sequence[Path],
    command: str,
    jobs: int | None = None,
    told: Callable[[float], None] | None = None,
) -> Iterator[tuple[str, Metrics]]:
    """Run each setup into its folder; labels and metrics in order.

    Results don't depend on the number of jobs. Processes have started when this returns. `told`
    hears the share of a run that is done, where it runs in this process.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: expected at least 1")
    work = sum(len(setup.trace) for setup in setups)
    if jobs is None:
        jobs = os.cpu_count() or 1 if work >= REQUESTS_WORTH_A_PROCESS else 1
    jobs = min(jobs, len(setups))
    tasks = [(*task, command) for task in zip(setups, folders, strict=True)]
    if jobs == 1:
        return (_run(*task, told) for task in tasks)
    for module in plugins.modules:
        from cloudpickle import register_pickle_by_value  # late: few runs have plug-ins

        register_pickle_by_value(module)
    longest_first = sorted(range(len(setups)), key=lambda i: -_work(setups[i]))
    return in_workers(_run, tasks, jobs, longest_first)


def _work(setup: Setup) -> float:
    """About how long a run takes, in requests under paging."""
    slowest = max(SLOW.get(spec_name(type(part)), 1.0) for part in parts_of(setup.policy))
    return slowest * len(setup.trace) * (1 if setup.fast_forward else 2)


def _run(
    setup: Setup, folder: Path, command: str, told: Callable[[float], None] | None = None
) -> tuple[str, Metrics]:
    folder.mkdir()
    sink = None if setup.replicas > 1 else Files(folder)
    run = execute(setup, told=told, sink=sink)
    return setup.name, write_run(run, folder, command, written=sink is not None)["metrics"]
