"""A run in compiled form: the gates it must pass, SimPy as its clock, its records as columns."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import simpy

from sim.cost.base import StepCost
from sim.cost.roofline import Roofline
from sim.engine.closed_loop import ClosedLoop
from sim.engine.limits import Limits
from sim.engine.record import Log, Sink, check_tally
from sim.engine.scheduler import Scheduler
from sim.hardware import PCIE_4
from sim.plan import AS_PER_S
from sim.policy.manager import Manager
from sim.run.compiled.bounds import most_as
from sim.run.compiled.build import KERNELS, MANAGERS, STEPS, Program, cost_kind, known, program
from sim.run.compiled.kept import Kept
from sim.run.compiled.regions import Region, most_room, regions
from sim.run.compiled.restore import check, give_back
from sim.run.compiled.rules import NotLowered
from sim.run.compiled.state import State, make_state
from sim.run.compiled.tables import Table
from sim.run.compiled.window import SLOTS
from sim.run.tables import InMemory
from workloads.schema import Trace
from workloads.spool import slices

DONE, FULL, SAMPLED, SHORT, FAILED = range(5)
BOUND = 2**62
ROOM = 2**28
"""Numbers of a region, 2 GiB of addresses."""


@dataclass(frozen=True)
class Job:
    """A run, as far as its log depends on it."""

    trace: Trace
    manager: Manager
    limits: Limits
    cost: StepCost
    interval_s: float
    horizon_as: int | None = None
    closed: ClosedLoop | None = None
    fast_forward: bool = True
    host_bytes_per_s: int = PCIE_4
    knows_longest: bool = False  # of the contexts, for the cost models that ask

    @property
    def interval_as(self) -> int:
        """Between samples, as `Recorder` counts."""
        return round(self.interval_s * AS_PER_S)


def hindrance(job: Job) -> str | None:
    """Why a run can't be compiled; None where it can."""
    limits, cost = job.limits, job.cost
    if type(job.manager) not in MANAGERS:
        return "its policy is interpreted"
    if cost_kind(cost) is None:
        return "its cost model is interpreted"
    if AS_PER_S // job.host_bytes_per_s >= 2**31:
        return "its way to the host is too slow to be counted in 64 bits"
    if job.closed is not None or job.trace.turns is not None:
        return "closed loops and sessions are interpreted"
    if job.interval_as % AS_PER_S and AS_PER_S % job.interval_as:
        return "its samples don't divide a second"
    if most_as(cost, limits, job.manager, limits.max_model_len) >= BOUND and (
        most_as(cost, limits, job.manager, _longest_context(job.trace)) >= BOUND
    ):
        return "its steps may last longer than 64 bits of attoseconds"
    if most_room(job.manager, limits.max_num_seqs + 2) > ROOM:
        return "its sequences may share too many blocks one by one"
    try:
        known()
    except NotLowered as why:
        return f"a line has no rule: {why}"
    return None


def _longest_context(trace: Trace) -> int:
    prompt, output = trace.prompt_tokens, trace.output_tokens
    return max((int((prompt[rows] + output[rows]).max()) for rows in slices(trace)), default=0)


def run_compiled(
    job: Job,
    compiled: bool = True,
    told: Callable[[float], None] | None = None,
    sink: Sink | None = None,
    slots: int = SLOTS,
) -> Log:
    """The log of a run without hindrance, `told` and `sink` as those of `Recorder`.

    `compiled`: else the same text under Python. `slots`: requests that are there at once, at first.
    """
    manager, cost = job.manager, job.cost
    scheduler = Scheduler(manager, job.limits, job.knows_longest)
    made = program(compiled)
    objects: dict[str, Any] = {
        "scheduler": scheduler,
        "swap": scheduler.swap,
        "manager": manager,
        "pool": manager.pool,
        "cost": cost,
    }
    for role in ("seen", "retained", "cut", "space", "cache", "blanks", "windows"):
        if hasattr(manager, role):
            objects[role] = getattr(manager, role)
    placed = regions(objects, job.trace, job.limits.max_num_seqs + 2)
    placed["cost_weights"] = _weights(job.limits, cost)
    room = min(slots, max(1, len(job.trace)))
    state = make_state(made, objects, placed, _table(cost), room)
    horizon_as = 2**62 * AS_PER_S if job.horizon_as is None else job.horizon_as
    for name, as_ in (("loop_horizon_as", horizon_as), ("recorder_interval", job.interval_as)):
        state[f"{name}_s"], state[f"{name}_a"] = divmod(as_, AS_PER_S)
    kind = cost_kind(cost)
    assert kind is not None
    state["run_manager"], state["run_cost"] = MANAGERS.index(type(manager)), kind
    state["run_ahead"] = job.limits.rules.async_scheduling
    state["run_spaces"] = "space" in objects
    state["run_fast_forward"] = job.fast_forward
    state["run_host_byte_as"] = AS_PER_S // job.host_bytes_per_s
    state["recorder_recomputes"] = job.limits.pressure.preemption == "recompute"
    kept = Kept(state, job.trace, manager, sink or InMemory(), told)
    env = simpy.Environment(initial_time=0)
    env.process(_engine(env, made, state, kept))
    env.run()
    give_back(made, state, objects)
    _tell(cost, state)
    check(state, manager)
    check_tally(manager)
    return kept.log(job.interval_as / AS_PER_S)


def _table(cost: StepCost) -> Table:
    kind, known = cost_kind(cost), cast(Any, cost)
    if kind not in (KERNELS, STEPS):
        return Table()
    from sim.run.compiled.costs import kernel_table, steps_table  # late: few runs need them

    return kernel_table(known) if kind == KERNELS else steps_table(known)


def _tell(cost: StepCost, state: State) -> None:
    """Cost models hear what they would have said."""
    kind, known = cost_kind(cost), cast(Any, cost)
    if kind == KERNELS:
        from sim.run.compiled.costs import kernel_said

        kernel_said(known, state.said())
    elif kind == STEPS:
        known.answered(state["steps_answers"], state["steps_outside"])


def _weights(limits: Limits, cost: StepCost) -> Region:
    """Time to read the weights by tokens of a step; one number where they are all read."""
    times: list[int] = []
    if isinstance(cost, Roofline):
        most = limits.max_num_batched_tokens + limits.max_num_seqs if cost._weights_as else 0
        times = [cost._reading_as(tokens) for tokens in range(most + 1)]
    return Region(1 + len(times), np.array([len(times), *times], np.int64))


def _engine(
    env: simpy.Environment, made: Program, state: State, kept: Kept
) -> Generator[simpy.Event, None, None]:
    """Waits for its own time at every sample; in between nobody else is due."""
    told = SAMPLED
    waited = 0
    while told != DONE:
        told = made.run(state.array, state.floats)
        if told == FAILED:
            from sim.cost.steps.model import too_steep

            first, tokens = state["steps_failed_first"], state["steps_failed_tokens"]
            raise too_steep(first, tokens, state["plan_read_bytes"])
        if told in (FULL, SHORT):
            kept.take()
            if told == SHORT:
                kept.refill()
            continue
        kept.tell()
        now = state["loop_now_as_s"] * AS_PER_S + state["loop_now_as_a"]
        if now > waited:
            yield env.timeout(now - waited)
            waited = now
    kept.take()
