"""Where runs are made: `here`, or on a Ray cluster."""

import os

from sim.sweep.sweep import Runner
from workloads.errors import InputError


def runner(on: str = "here", jobs: int | None = None) -> Runner:
    """What `--on` and `--jobs` name. Raises InputError for anything else."""
    if on == "here":
        from sim.sweep.local import run_here

        processes = jobs if jobs is not None else os.cpu_count() or 1
        return lambda work, trace, tasks: run_here(work, trace, tasks, processes)
    if on == "ray" or on.startswith("ray://"):
        from sim.sweep.on_ray import run_on_ray

        address = None if on == "ray" else on
        return lambda work, trace, tasks: run_on_ray(work, trace, tasks, address)
    raise InputError(f"--on {on}: expected here, ray or ray://HOST:10001")
