"""Steps of the recorded runs, found again from the stamps, beside the model's by batch size.

The scheduler's rules are exact in steps: what it decides depends on time only through arrivals. So
the run is replayed with each step's time stretched until the steps in which requests get their
first and last tokens end when they did. Between two such stamps the time is measured, the steps are
known, and what the model says of these very steps stands beside it.

The all-reduce of the RTX PRO 6000 was fitted to every second stretch between stamps (sums.py); its
steps are judged on the others.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.recorded.replay import RUNS
from benchmarks.recorded.tables import markdown
from sim.cost.base import Constant, StepCost
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.plan import AS_PER_S, StepPlan
from sim.run.simulation import Run, execute

Array = NDArray[np.float64]
ROUNDS = 6
BATCHES = ((1, 4), (5, 16), (17, 32), (33, 64), (65, 96), (97, 128))
WITHIN_S = 5e-3
FEWEST = 20
FITTED_ON_ODD = {"2 × RTX PRO 6000"}


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
    late: NDArray[np.bool_]  # after the first second, which has start-up work
    plans: dict[int, StepPlan]
    missed_pct: float  # of requests whose stamps the replay doesn't meet


def forced(gpu: str) -> Replay:
    """The replay of that run."""
    name, device, profile = RUNS[gpu]
    measured = read_measured(name)
    setup = prediction(measured, gpu=device, profile=profile, cost="table")
    setup = replace(setup, fast_forward=False)
    factors = np.ones(0)
    for _ in range(ROUNDS):
        cost = Stretched(setup.cost(), factors)
        run = execute(setup, cost)
        count = int(run.log.steps["step"].max()) + 1
        own = np.array([cost.own.get(i, 0) / AS_PER_S for i in range(count)])
        last, segment = anchors(measured, run, own)
        factors = np.concatenate((factors, np.ones(max(count - len(factors), 0))))[:count]
        time, real = np.bincount(segment, own), np.diff(last, prepend=0.0)
        real = np.append(real, np.zeros(len(time) - len(real)))
        ratio = np.where((time > 0) & (real > 0), real / np.maximum(time, 1e-12), 1.0)
        factors = ratio[segment]
    requests = run.log.requests
    late = np.abs(requests["finish_s"] - measured.last_token_s) > WITHIN_S
    late |= np.abs(requests["first_token_s"] - measured.first_token_s) > WITHIN_S
    steps, size = run.log.steps, len(own)
    decodes, prefill, after = np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool)
    decodes[steps["step"]], prefill[steps["step"]] = steps["decodes"], steps["prefill_tokens"]
    after[steps["step"]] = steps["start_s"] > 1
    missed = 100 * float(late.mean())
    return Replay(own, own * factors, segment, decodes, prefill, after, cost.plans, missed)


def anchors(measured: Measured, run: Run, own: Array) -> tuple[Array, NDArray[np.int64]]:
    """When each segment ends by the stamps, and the segment of every step."""
    steps = run.log.steps
    ends, number = steps["end_s"], steps["step"]
    found: dict[int, list[float]] = {}
    for mine, real in (
        (run.log.requests["first_token_s"], measured.first_token_s),
        (run.log.requests["finish_s"], measured.last_token_s),
    ):
        at = number[np.minimum(np.searchsorted(ends, mine - 1e-9), len(ends) - 1)]
        for step, stamp in zip(at.tolist(), real.tolist(), strict=True):
            found.setdefault(step, []).append(stamp)
    kept: list[tuple[int, float]] = []
    for step in sorted(found):
        stamp = float(np.median(found[step]))
        if not kept or stamp > kept[-1][1] + 1e-3:
            kept.append((step, stamp))
    segment = np.searchsorted([step for step, _ in kept], np.arange(len(own)), side="left")
    return np.array([stamp for _, stamp in kept]), segment


def by_batch() -> str:
    """Model against measured seconds by decodes in the step, with and without a chunk near.

    The first second is left out: start-up work.
    """
    rows = []
    for gpu in RUNS:
        replay = forced(gpu)
        own, real, decodes = replay.own, replay.real, replay.decodes
        beside = (np.bincount(replay.segment, replay.prefill) > 0)[replay.segment]
        used = replay.late & (own > 0) & (real > 0)
        if gpu in FITTED_ON_ODD:
            used &= replay.segment % 2 == 0
        for low, high in BATCHES:
            cells = [gpu, f"{low} to {high}"]
            for chunk in (False, True):
                some = used & (decodes >= low) & (decodes <= high) & (beside == chunk)
                cells += _cells(replay, some)
            rows.append(cells)
        error = 100 * (own[used].sum() / real[used].sum() - 1)
        note = f"requests not met: {replay.missed_pct:.0f} %"
        rows.append([gpu, "all", f"{int(used.sum()):,}", f"{error:+.2f} %", note, ""])
    header = ["run", "decodes", "steps alone", "model", "steps near a chunk", "model"]
    return markdown(header, rows)


def _cells(replay: Replay, some: NDArray[np.bool_]) -> list[str]:
    """How many steps, and the model's error with its standard error over stretches."""
    count = int(some.sum())
    if count < FEWEST:
        return ["", ""]
    segment = replay.segment[some]
    own, real = np.bincount(segment, replay.own[some]), np.bincount(segment, replay.real[some])
    error = own.sum() / real.sum() - 1
    spread = float(np.sqrt(((own - (1 + error) * real) ** 2).sum()) / real.sum())
    return [f"{count:,}", f"{100 * error:+.1f} ± {100 * spread:.1f} %"]
