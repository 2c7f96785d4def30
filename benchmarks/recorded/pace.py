"""A recorded run replayed at its measured pace: its steps, found again from its stamps.

The scheduler's rules are exact in steps: what it decides depends on time only through arrivals. So
the run is replayed with each step's time stretched until the steps in which requests get their
first and last tokens, and those before which they were admitted, end when they did. Between two
such stamps the time is measured and the steps are known.
"""

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from benchmarks.recorded.replay import RUNS
from sim.cost.base import Constant, StepCost
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.plan import AS_PER_S, StepPlan
from sim.run.simulation import Run, execute
from workloads.incoming import read_json_lines

Array = NDArray[np.float64]
ROUNDS = 12
WITHIN_S = 5e-3
AHEAD = 2
"""A step is planned when the one two before it ends: the one between is planned already."""


class Stretched:
    """A model's steps, each times its own factor."""

    name = "stretched"
    constants: tuple[Constant, ...] = ()
    warnings: tuple[str, ...] = ()

    def __init__(self, model: StepCost, factors: Array) -> None:
        self._model, self._factors = model, factors
        self.own: dict[int, int] = {}  # what the model says of each step, attoseconds
        self.plans: dict[int, StepPlan] = {}

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """One step of the plan."""
        first, _, _ = self._model.linear(plan)
        self.own[plan.step], self.plans[plan.step] = first, plan
        factor = self._factors[plan.step] if plan.step < len(self._factors) else 1.0
        return round(first * factor), 0, 1


@dataclass(frozen=True)
class Replay:
    """A run replayed at its measured pace, step by step."""

    own: Array  # the model's seconds
    real: Array  # the measured ones, as far as stamps tell them apart
    segment: NDArray[np.int64]  # between which two stamps a step lies
    decodes: Array
    prefill: Array  # tokens of chunks
    known: NDArray[np.bool_]  # after start-up work, and before the first stamp that isn't met
    plans: dict[int, StepPlan]
    missed_pct: float  # of requests whose stamps the replay doesn't meet
    met_until_s: float  # when the first of those was


def forced(gpu: str) -> Replay:
    """The replay of that run."""
    name, device, profile = RUNS[gpu]
    measured = read_measured(name)
    setup = prediction(measured, gpu=device, profile=profile, cost="table")
    # Start-up work held the engine up in its first step, so that the second was planned late: who
    # is served with the first request was there.
    arrival = setup.trace.arrival_s.copy()
    arrival[measured.first_token_s == measured.first_token_s[0]] = 0
    trace = replace(setup.trace, arrival_s=arrival)
    setup = replace(setup, fast_forward=False, trace=trace)
    planned_s = scheduled(measured)
    factors = np.ones(0)
    for _ in range(ROUNDS):
        cost = Stretched(setup.cost(), factors)
        run = execute(setup, cost)
        count = int(run.log.steps["step"].max()) + 1
        own = np.array([cost.own.get(i, 0) / AS_PER_S for i in range(count)])
        last, segment = anchors(measured, planned_s, run, own)
        before = factors
        time, real = np.bincount(segment, own), np.diff(last, prepend=0.0)
        real = np.append(real, np.zeros(len(time) - len(real)))
        ratio = np.where((time > 0) & (real > 0), real / np.maximum(time, 1e-12), 1.0)
        factors = ratio[segment]
        if np.array_equal(before, factors):
            break
    requests = run.log.requests
    real = np.array([measured.first_token_s, measured.last_token_s])
    mine = np.array([requests["first_token_s"], requests["finish_s"]])
    late = np.abs(mine - real) > WITHIN_S
    until = float(real[late].min(initial=inf))
    steps, size = run.log.steps, len(own)
    decodes, prefill, known = np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool)
    decodes[steps["step"]], prefill[steps["step"]] = steps["decodes"], steps["prefill_tokens"]
    known[steps["step"]] = (steps["start_s"] > 1) & (steps["end_s"] < until - WITHIN_S)
    missed = 100 * float(late.any(axis=0).mean())
    return Replay(own, own * factors, segment, decodes, prefill, known, cost.plans, missed, until)


def scheduled(measured: Measured) -> Array:
    """When each request was first planned, on the clock of the other stamps."""
    assert measured.folder is not None
    rows = read_json_lines(measured.folder / "requests.jsonl")
    rows = [rows[i] for i in measured.recorded_row]
    zero = rows[0]["first_token_ts"] - measured.first_token_s[0]
    return np.array([row["scheduled_ts"] for row in rows]) - zero


def anchors(
    measured: Measured, planned_s: Array, run: Run, own: Array
) -> tuple[Array, NDArray[np.int64]]:
    """When each segment ends by the stamps, and the segment of every step."""
    steps, requests = run.log.steps, run.log.requests
    ends, number = steps["end_s"], steps["step"]
    found: dict[int, list[float]] = {}
    for mine, real in (
        (requests["first_token_s"], measured.first_token_s),
        (requests["finish_s"], measured.last_token_s),
    ):
        at = np.minimum(np.searchsorted(ends, mine - 1e-9), len(ends) - 1)
        for step, stamp in zip(number[at].tolist(), real.tolist(), strict=True):
            found.setdefault(step, []).append(stamp)
    at = np.searchsorted(steps["start_s"], requests["first_scheduled_s"] - 1e-9) - AHEAD
    for row, stamp in zip(at.tolist(), planned_s.tolist(), strict=True):
        if row >= 0:
            found.setdefault(int(number[row]), []).append(stamp)
    kept: list[tuple[int, float]] = []
    for step in sorted(found):
        stamp = float(np.median(found[step]))
        if not kept or stamp > kept[-1][1] + 1e-3:
            kept.append((step, stamp))
    segment = np.searchsorted([step for step, _ in kept], np.arange(len(own)), side="left")
    return np.array([stamp for _, stamp in kept]), segment
