"""The same trace simulated and executed: does the prediction hold?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from executor.assemble import Assembled, Executor
from executor.device import Device
from executor.driver import free_run, lockstep
from executor.judge import LOCKSTEP_PERCENT, Judged, judge, judge_free_runs
from executor.machine import Machine
from executor.model import Llama
from executor.plan_log import Logged, expand, logged
from executor.torch_device import TorchDevice
from executor.work import Work
from sim.cost.base import StepCost
from sim.driver import run_simulated
from sim.engine import serve
from sim.metrics import compute_metrics
from sim.plan import AS_PER_S, StepPlan
from sim.policy.base import Manager
from sim.record import Recorder
from sim.scheduler import Scheduler
from sim.simulation import Run, Setup

KINDS = ("decode", "prefill", "mixed")
MEASURED_WITH = ("numpy", "torch", "pyarrow")
HELD = ("live", "reserved", "internal", "metadata")


@dataclass(frozen=True)
class Validation:
    """One policy's outcome. `measured` is the free run of median throughput."""

    predicted: Run
    measured: Run
    rows: tuple[Judged, ...]

    @property
    def passed(self) -> bool:
        """Whether no judged row failed."""
        return all(row.passed is not False for row in self.rows)


class CheckedDevice:
    """A device whose ids are checked against the manager's counts after every step."""

    def __init__(self, device: TorchDevice, manager: Manager) -> None:
        self._device, self._manager = device, manager
        self.held_bytes: list[int] = []

    def run(self, plan: StepPlan, work: Work) -> int:
        took = self._device.run(plan, work)
        table = self._device.table
        table.check(self._manager)
        self.held_bytes.append(table.held_slots * self._manager.pool.token_bytes)
        return took


def validate(setup: Setup, machine: Machine, llama: Llama, repeats: int) -> Validation:
    """Simulate, execute and compare: `repeats` free runs, and half as many in lockstep.

    Lockstep has no schedule that could amplify a step's noise, so it needs fewer.
    """
    predicted, log = predict(setup)
    executor = Executor(setup, machine, llama)
    steps = list(expand(log))
    held, times, free = [], [], []
    for turn in range(repeats + 1):
        if turn % 2 == 0 or turn == 1:
            assembled = executor.fresh()
            checked = CheckedDevice(assembled.device, assembled.scheduler.manager)
            measured = in_lockstep(setup, assembled, checked, steps)
            held.append(checked.held_bytes)
            if turn:  # the first replay warms up every shape
                times.append(measured)
        if turn:
            free.append(in_free_run(setup, executor.fresh()))
    rows = [
        *memory_rows(setup.label, executor, predicted, held[0]),
        *lockstep_rows(setup.label, steps, times),
        *judge_free_runs(setup.label, predicted, free),
    ]
    by_speed = sorted(free, key=lambda run: run["output_throughput"] or 0.0)
    return Validation(predicted, by_speed[len(free) // 2], tuple(rows))


def predict(setup: Setup) -> tuple[Run, list[Logged]]:
    """The simulated run and its plan log."""
    scheduler = Scheduler(setup.policy.manager(setup.pool), setup.limits)
    recorder = Recorder(setup.trace, setup.interval_s)
    cost, log = setup.cost(), list[Logged]()
    run_simulated(logged(serve(setup.trace, scheduler, recorder, _horizon(setup)), log), cost)
    return _finished(setup, recorder, cost), log


def in_lockstep(
    setup: Setup, assembled: Assembled, device: Device, steps: Sequence[Logged]
) -> list[int]:
    """Measured attoseconds of each step of the log."""
    recorder = Recorder(setup.trace, setup.interval_s)
    effects = serve(setup.trace, assembled.scheduler, recorder, _horizon(setup))
    return lockstep(effects, assembled.scheduler, device, iter(steps))


def in_free_run(setup: Setup, assembled: Assembled) -> Run:
    """A measured run that scheduled itself."""
    recorder = Recorder(setup.trace, setup.interval_s)
    effects = serve(setup.trace, assembled.scheduler, recorder, _horizon(setup))
    free_run(effects, assembled.scheduler, assembled.device)
    measured = _finished(setup, recorder, setup.cost())
    return replace(measured, kind="measured", versions=MEASURED_WITH)


def memory_rows(
    policy: str, executor: Executor, predicted: Run, held: Sequence[int]
) -> Iterator[Judged]:
    """Bytes are exact or wrong. `held`: bytes that sequences owned after each single step."""
    allocated = [float(executor.cache.nbytes)]
    yield judge(
        policy,
        "kv_allocated_bytes",
        "KV tensors",
        "bytes",
        executor.predicted_bytes,
        allocated,
        0.0,
    )
    events = predicted.log.steps
    counted = sum((events[f"{use}_bytes"] for use in HELD), start=0 * events["steps"])
    owned = [held[last] for last in (events["step"] + events["steps"] - 1).tolist()]
    if not owned:
        return
    for name, label, simulated, measured in (
        ("peak", "peak", float(counted.max()), float(max(held))),
        ("mean", "mean over events", float(counted.mean()), sum(owned) / len(owned)),
    ):
        title = f"KV held, {label}"
        yield judge(policy, f"kv_held_{name}_bytes", title, "bytes", simulated, [measured], 0.0)


def lockstep_rows(
    policy: str, steps: Sequence[Logged], times: Sequence[Sequence[int]]
) -> Iterator[Judged]:
    """Time of all steps, and of each kind of step."""
    for kind in ("all", *KINDS):
        chosen = [i for i, step in enumerate(steps) if kind in ("all", kind_of(step.plan))]
        if not chosen:
            continue
        predicted = sum(steps[i].first_as for i in chosen) / AS_PER_S
        repeats = [sum(one[i] for i in chosen) / AS_PER_S for one in times]
        label = f"lockstep: {len(chosen)} {kind} steps"
        tolerance = LOCKSTEP_PERCENT if kind == "all" else None
        yield judge(policy, f"lockstep_{kind}_s", label, "s", predicted, repeats, tolerance)


def kind_of(plan: StepPlan) -> str:
    """What the step does."""
    if not plan.chunks:
        return "decode"
    return "mixed" if plan.decodes else "prefill"


def _horizon(setup: Setup) -> int | None:
    return None if setup.horizon_s is None else round(setup.horizon_s * AS_PER_S)


def _finished(setup: Setup, recorder: Recorder, cost: StepCost) -> Run:
    log = recorder.log()
    return Run(setup, log, cost, compute_metrics(log, setup.pool.capacity_bytes))
