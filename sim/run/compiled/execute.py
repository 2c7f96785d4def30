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
from sim.engine.record import EVENT_COUNTS, Column, Log, Recorder
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S
from sim.policy.counting.capped import Saturating
from sim.policy.counting.pages import Pages
from sim.policy.counting.slabs import Rings, Slabs
from sim.policy.manager import Manager
from sim.policy.paging import RingPages, SelectPages
from sim.policy.virtual import VirtualPages, VirtualRings
from sim.run.compiled.build import Program, is_lowered, program
from sim.run.compiled.seconds import seconds
from sim.run.compiled.state import COUNTS, State, give_back, make_state
from workloads.schema import Trace

MANAGERS: tuple[type, ...] = (
    Pages, SelectPages, RingPages, Slabs, Rings, VirtualPages, VirtualRings,
)  # fmt: skip
"""Exactly these kinds: a subclass may decide otherwise."""

DONE, FULL, SAMPLED = range(3)
BOUND = 2**62
TABLES = ("events", "samples", "stretches")


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
    job: Job, compiled: bool = True, told: Callable[[float], None] | None = None
) -> Log:
    """The log of a run without hindrance. `compiled`: else the same text under Python."""
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
    state = make_state(made, parts, job.trace, _weights(job.limits, cost))
    horizon_as = 2**62 * AS_PER_S if job.horizon_as is None else job.horizon_as
    for name, as_ in (("loop_horizon_as", horizon_as), ("recorder_interval", job.interval_as)):
        state[f"{name}_s"], state[f"{name}_a"] = divmod(as_, AS_PER_S)
    state["run_fast_forward"] = job.fast_forward
    kept = Kept(job, scheduler, told)
    env = simpy.Environment(initial_time=0)
    env.process(_engine(env, made, state, kept))
    env.run()
    give_back(made, state, parts)
    manager.check_integrity()
    kept.ended(scheduler)
    kept.take_requests(state)
    del state  # as large as the log that follows
    return kept.log()


def _weights(limits: Limits, cost: Roofline) -> Any:
    """Time to read the weights by tokens of a step; one number where they are all read."""
    if cost._weights_as is None:
        return np.array([cost._all_weights_as], np.int64)
    most = limits.max_num_batched_tokens + limits.max_num_seqs
    return np.array([cost._reading_as(tokens) for tokens in range(most + 1)], np.int64)


def _engine(
    env: simpy.Environment, made: Program, state: State, kept: "Kept"
) -> Generator[simpy.Event, None, None]:
    """Waits for its own time at every sample; in between nobody else is due."""
    told = SAMPLED
    waited = 0
    while told != DONE:
        told = made.run(state.array)
        if told == FULL:
            kept.take(state)
            continue
        kept.tell(state)
        now = state["loop_now_as_s"] * AS_PER_S + state["loop_now_as_a"]
        if now > waited:
            yield env.timeout(now - waited)
            waited = now
    kept.take(state)


class Kept(Recorder):
    """Records that come as columns."""

    def __init__(
        self, job: Job, scheduler: Scheduler, told: Callable[[float], None] | None
    ) -> None:
        super().__init__(job.trace, job.interval_s, told)
        self.began(scheduler)
        self._parts: list[dict[str, Column]] = []
        self._timelines: list[dict[str, Column]] = []
        self._gaps: list[Any] = []
        self._ends: list[Any] = []

    def take(self, state: State) -> None:
        """Empty the tables."""
        rows, samples, stretches = (state[f"recorder_{name}"] for name in TABLES)
        t = state.events[:rows]
        part: dict[str, Column] = {
            "start_s": seconds(t[:, 0], t[:, 1]),
            "end_s": seconds(t[:, 2], t[:, 3]),
            "first_step_s": seconds(t[:, 4] // AS_PER_S, t[:, 4] % AS_PER_S),
            "step_growth_s": seconds(t[:, 5] // AS_PER_S, t[:, 5] % AS_PER_S),
        }
        nothing = np.zeros(rows, np.int64)
        columns = [*(t[:, i] for i in range(6, COUNTS)), nothing, nothing]  # no swapping
        part |= zip(EVENT_COUNTS, columns, strict=True)
        part |= {name: t[:, COUNTS + i] for i, name in enumerate(self._tally)}
        self._parts.append({name: column.copy() for name, column in part.items()})
        q = state.samples[:samples]
        taken: dict[str, Column] = {
            "time_s": seconds(q[:, 0], q[:, 1]),
            "running": q[:, 2],
            "waiting": q[:, 3],
        }
        taken |= {name: q[:, 4 + i] for i, name in enumerate(self._tally)}
        self._timelines.append({name: column.copy() for name, column in taken.items()})
        g = state.stretches[:stretches]
        until = seconds(g[:, 4], g[:, 5])
        took = until - seconds(g[:, 2], g[:, 3])
        gap, away, redone = (g[:, 1] == kind for kind in range(3))
        self._ends.append(until[gap])
        self._gaps.append(took[gap])
        np.add.at(np.asarray(self._away), g[away, 0], took[away])  # in order: sums of floats
        np.add.at(np.asarray(self._redone), g[redone, 0], took[redone])
        self._now_s = float(part["end_s"][-1]) if rows else self._now_s
        for name in TABLES:
            state[f"recorder_{name}"] = 0

    def tell(self, state: State) -> None:
        """What share of the requests has left, to whom it matters."""
        if self._told is not None:
            inside = sum(state.array[state[f"scheduler_{name}"]] for name in ("waiting", "running"))
            self._told((state["arrivals_row"] - int(inside)) / len(self._trace))

    def take_requests(self, state: State) -> None:
        """At the end."""
        of = state.of
        for name, to in (("scheduled", "_scheduled"), ("first", "_first"), ("finish", "_finish")):
            there = of(f"{name}_s") >= 0
            known = seconds(np.where(there, of(f"{name}_s"), 0), of(f"{name}_a"))
            setattr(self, to, np.where(there, known, np.nan))
        arrived = np.arange(len(there)) < state["arrivals_row"]
        self._refused = np.flatnonzero(arrived & (of("output") == 0)).tolist()
        joined = of("joined_tick")
        columns = {
            "generated": of("generated") + np.where(joined >= 0, state["manager_tick"] - joined, 0)
        }
        columns |= {name: of(name) for name in ("preemptions", "recomputed", "cached")}
        columns["swapped"] = of("swapped_bytes")
        for name, column in columns.items():
            setattr(self, f"_{name}", np.ascontiguousarray(column))
        self._resume_gaps = np.concatenate(self._gaps)
        self._resumed = np.concatenate(self._ends)

    def _event_columns(self) -> dict[str, Column]:
        return _joined(self._parts)

    def _sample_columns(self) -> dict[str, Column]:
        return _joined(self._timelines)


def _joined(parts: list[dict[str, Column]]) -> dict[str, Column]:
    """Whole columns; the parts go as they are joined, so that none is there twice for long."""
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in [*parts[0]]}
