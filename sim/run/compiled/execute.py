"""A run in compiled form: the gates it must pass, SimPy as its clock, its records as columns."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from sim.cost.base import StepCost
from sim.cost.roofline import Roofline
from sim.engine.closed_loop import ClosedLoop
from sim.engine.limits import Limits
from sim.engine.record import Log, Sink, check_tally
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S
from sim.policy.counting.capped import Saturating
from sim.policy.counting.pages import Pages
from sim.policy.counting.slabs import Rings, Slabs
from sim.policy.manager import Manager
from sim.policy.paging import RingPages, SelectPages
from sim.policy.virtual import VirtualPages, VirtualRings
from sim.run.compiled.build import Program, is_lowered, program
from sim.run.compiled.kept import Kept
from sim.run.compiled.state import State, give_back, make_state
from sim.run.compiled.window import SLOTS
from sim.run.tables import InMemory
from workloads.schema import Trace

MANAGERS: tuple[type, ...] = (
    Pages, SelectPages, RingPages, Slabs, Rings, VirtualPages, VirtualRings,
)  # fmt: skip
"""Exactly these kinds: a subclass may decide otherwise."""

DONE, FULL, SAMPLED, SHORT = range(4)
BOUND = 2**62


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

    @property
    def interval_as(self) -> int:
        """Between samples, as `Recorder` counts."""
        return round(self.interval_s * AS_PER_S)


def hindrance(job: Job) -> str | None:
    """Why a run can't be compiled; None where it can."""
    limits, cost = job.limits, job.cost
    if type(job.manager) not in MANAGERS or not is_lowered(type(job.manager)):
        return "its policy is interpreted"
    if type(cost) is not Roofline:
        return "its cost model is interpreted"
    if limits.rules.async_scheduling or limits.pressure.preemption == "swap":
        return "planning ahead and swapping are interpreted"
    if job.closed is not None or job.trace.turns is not None:
        return "closed loops and sessions are interpreted"
    if job.interval_as % AS_PER_S and AS_PER_S % job.interval_as:
        return "its samples don't divide a second"
    if _most_as(job, cost) >= BOUND:
        return "its steps may last longer than 64 bits of attoseconds"
    return None


def _most_as(job: Job, cost: Roofline) -> int:
    """More than any step, or any number in the sum of a request's steps, can come to.

    A request takes at most as many steps as the longest context has tokens, and so does an event.
    """
    limits, pool = job.limits, job.manager.pool
    longest, seqs = limits.max_model_len, limits.max_num_seqs
    static = limits.batching == "static"
    tokens = seqs * longest if static else limits.max_num_batched_tokens
    # Attention reads what is kept, twice at most with landmarks; a chunk's tokens see the longest.
    read_as = 2 * seqs * longest * pool.token_bytes * cost._byte_as
    pair_as = cost._pair_as + sum([pair for _, pair in cost._windows])
    token_as = cost._token_as + cost._sample_as + cost._summed_token_as
    weights_as = max(cost._weight_time_as(tokens + seqs), cost._all_weights_as)
    step_as = cost._overhead_as + cost._sums_as + weights_as + read_as
    step_as += (tokens + seqs) * (longest * pair_as + token_as)
    growth_as = 2 * seqs * pool.token_bytes * cost._byte_as
    parts = step_as // 10**9 * longest, (growth_as // 10**9 + 1) * longest * longest
    return max(step_as, *parts)


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
    assert isinstance(cost, Roofline)
    scheduler = Scheduler(manager, job.limits)
    made = program(type(manager), compiled)
    parts = {
        "scheduler": scheduler,
        "manager": manager,
        "pool": manager.pool,
        "cost": cost,
    }
    if isinstance(manager, Saturating):
        parts["seen"] = manager.seen
    room = min(slots, max(1, len(job.trace)))
    state = make_state(made, parts, _weights(job.limits, cost), room)
    horizon_as = 2**62 * AS_PER_S if job.horizon_as is None else job.horizon_as
    for name, as_ in (("loop_horizon_as", horizon_as), ("recorder_interval", job.interval_as)):
        state[f"{name}_s"], state[f"{name}_a"] = divmod(as_, AS_PER_S)
    state["run_fast_forward"] = job.fast_forward
    kept = Kept(state, job.trace, manager, sink or InMemory(), told)
    env = simpy.Environment(initial_time=0)
    env.process(_engine(env, made, state, kept))
    env.run()
    give_back(made, state, parts)
    manager.check_integrity()
    check_tally(manager)
    return kept.log(job.interval_as / AS_PER_S)


def _weights(limits: Limits, cost: Roofline) -> Any:
    """Time to read the weights by tokens of a step; one number where they are all read."""
    if cost._weights_as is None:
        return np.array([cost._all_weights_as], np.int64)
    most = limits.max_num_batched_tokens + limits.max_num_seqs
    return np.array([cost._reading_as(tokens) for tokens in range(most + 1)], np.int64)


def _engine(
    env: simpy.Environment, made: Program, state: State, kept: Kept
) -> Generator[simpy.Event, None, None]:
    """Waits for its own time at every sample; in between nobody else is due."""
    told = SAMPLED
    waited = 0
    while told != DONE:
        told = made.run(state.array)
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
