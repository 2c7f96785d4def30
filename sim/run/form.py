"""In which form a run is carried out: compiled where that pays, else interpreted. Same bytes."""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from workloads.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.cost.base import StepCost
    from sim.engine.record import Log, Sink
    from sim.run.compiled.execute import Job
    from sim.run.simulation import Setup

VARIABLE = "KVTWIN_COMPILE"
"""0: never; 1: wherever it is possible; not set: where it pays."""

WARM, COLD = 15_000, 1_000_000
"""Requests from which it pays with machine code of an earlier run at hand, and without."""


def compiles(setup: "Setup", cost: "StepCost") -> bool:
    """Whether a run is compiled. Raises InputError where that is asked for and numba is missing."""
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "0", "1"):
        raise InputError(f"{VARIABLE}={asked}: expected 0 or 1")
    if asked == "0" or setup.replicas > 1 or (not asked and len(setup.trace) < WARM):
        return False
    if find_spec("numba") is None:
        if asked:
            raise InputError(f"{VARIABLE}=1: needs numba; expected pip install 'kvtwin[fast]'")
        return False
    if _hindrance(setup, cost) is not None:
        return False
    return bool(asked) or len(setup.trace) >= COLD or _is_warm()


def _hindrance(setup: "Setup", cost: "StepCost") -> str | None:
    """Why a run can't be compiled here; None where it can."""
    from sim.run.compiled.build import has_place  # late: short runs never ask
    from sim.run.compiled.execute import hindrance

    if setup.replicas > 1:
        return "several engines are interpreted"
    if not has_place():
        return "there is no folder for its machine code"
    return hindrance(_job(setup, cost))


def _job(setup: "Setup", cost: "StepCost") -> "Job":
    from sim.run.compiled.execute import Job

    return Job(
        setup.trace,
        setup.manager(),
        setup.limits,
        cost,
        setup.interval_s,
        setup.horizon_as,
        setup.closed,
        setup.fast_forward,
        setup.device.host_bytes_per_s,
        setup.knows_longest,
    )


def _is_warm() -> bool:
    from sim.run.compiled.build import is_warm

    return is_warm()


def note(setup: "Setup") -> str | None:
    """A line on a run that is compiled, or can't be where that is asked for."""
    cost = setup.cost()
    if not compiles(setup, cost):
        if os.environ.get(VARIABLE) == "1":
            return f"{VARIABLE}=1: this run is interpreted all the same, {_hindrance(setup, cost)}"
        return None
    first = "" if _is_warm() else "; compiling takes about a minute, once"
    return f"runs are compiled ({VARIABLE}=0 interprets them){first}"


def compiled_log(
    setup: "Setup",
    cost: "StepCost",
    told: "Callable[[float], None] | None" = None,
    sink: "Sink | None" = None,
) -> "Log":
    """Carry a run out in compiled form, `told` and `sink` as those of `Recorder`."""
    from sim.run.compiled.execute import run_compiled

    return run_compiled(_job(setup, cost), told=told, sink=sink)
