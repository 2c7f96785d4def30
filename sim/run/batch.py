"""Several runs at once, each in a process of its own where that pays."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sim.policy import plugins
from sim.run.folder import write_run
from sim.run.simulation import Setup, execute
from sim.run.workers import in_workers
from workloads.errors import InputError

REQUESTS_WORTH_A_PROCESS = 40_000
"""Starting a worker takes about half a second, in which so many requests are simulated."""

Metrics = list[dict[str, Any]]


def run_all(
    setups: Sequence[Setup], folders: Sequence[Path], command: str, jobs: int | None = None
) -> Iterator[tuple[str, Metrics]]:
    """Run each setup into its folder; yields labels and metrics in order.

    Results don't depend on the number of jobs.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: expected at least 1")
    work = sum(len(setup.trace) for setup in setups)
    if jobs is None:
        jobs = os.cpu_count() or 1 if work >= REQUESTS_WORTH_A_PROCESS else 1
    jobs = min(jobs, len(setups))
    tasks = zip(setups, folders, strict=True)
    if jobs == 1:
        for setup, folder in tasks:
            yield _run(setup, folder, command)
        return
    from cloudpickle import register_pickle_by_value

    for module in plugins.modules:
        register_pickle_by_value(module)
    yield from in_workers(_run, [(*task, command) for task in tasks], jobs)


def _run(setup: Setup, folder: Path, command: str) -> tuple[str, Metrics]:
    run = execute(setup)
    folder.mkdir()
    return setup.label, write_run(run, folder, command)["metrics"]
