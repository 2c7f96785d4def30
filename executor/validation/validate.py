"""The same trace simulated and executed: does the prediction hold?

A machine's speed changes within seconds, by tens of percent where others use it too, so prediction
and measurement must see the same machine. Each round therefore is a pair: while a run is measured
it is stopped after every quarter of a second, and for three times as long synthetic steps (never
the trace's) are timed; they predict what ran between them. Judged is the median over rounds of each
round's own signed error. Costs given in a file predict all rounds alike, and nothing is stopped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from executor.device.assemble import Assembled, Executor
from executor.device.base import Device
from executor.device.llama import Llama
from executor.device.machine import Machine
from executor.device.torch_device import TorchDevice
from executor.driver import free_run, lockstep
from executor.plan_log import Logged, expand, logged
from executor.validation.calibrate import Calibration
from executor.validation.judge import LOCKSTEP_PERCENT, Judged, judge, judge_free_runs
from executor.validation.warm import warm
from executor.work import Work
from sim.cost.base import StepCost
from sim.cost.steps.table import CostTable
from sim.engine.record import Recorder
from sim.plan import AS_PER_S, StepPlan
from sim.policy.manager import Manager
from sim.run.driver import run_simulated
from sim.run.judged import metrics_of
from sim.run.seam import told_by
from sim.run.simulation import Run, Setup, start

SLICE_AS = AS_PER_S // 4
PAUSE_S = 0.75
KINDS = ("decode", "prefill", "mixed")
MEASURED_WITH = ("numpy", "torch", "pyarrow")
HELD = ("live", "reserved", "internal", "metadata")


class StepTime(NamedTuple):
    """What a measured step took. The host's part ends when the model's pass begins, on a GPU when
    all is launched; the device's is the rest, in which the host waits."""

    kind: str
    tokens: int
    total_us: float
    host_us: float
    device_us: float


@dataclass(frozen=True)
class Validation:
    """One policy's outcome. The two runs are those of the round of median measured throughput."""

    predicted: Run
    measured: Run
    rows: tuple[Judged, ...]
    plans: tuple[Logged, ...]  # the log that all replays followed
    times: tuple[StepTime, ...]  # of the last replay's steps

    @property
    def passed(self) -> bool:
        """Whether something ran, and no judged row failed."""
        return bool(self.times) and all(row.passed is not False for row in self.rows)


class Pair(NamedTuple):
    """One round: a free run and a replay, predicted and measured. Times in attoseconds a step."""

    predicted: Run
    measured: Run
    predicted_as: list[int]
    measured_as: list[int]


class Costs:
    """What steps cost while a run is measured: found out between its steps, or given."""

    def __init__(self, setup: Setup, machine: Machine, llama: Llama) -> None:
        self._given = setup.cost_table
        if self._given is None:
            self._calibration = Calibration([Executor(setup, machine, llama)], machine, llama)

    def pause(self) -> None:
        """A run is stopped: time some steps."""
        if self._given is None:
            self._calibration.spend(PAUSE_S)

    def table(self) -> CostTable:
        """What steps cost since the last call."""
        if self._given is not None:
            return self._given
        return self._calibration.table([self._calibration.round()])


class PausedDevice:
    """A device that is stopped after every slice of work. The pause is in no step's time.

    A slice is long enough for the one step after a pause, whose caches are cold, not to count.
    """

    def __init__(self, device: Device, costs: Costs) -> None:
        self._device, self._costs = device, costs
        self._slice_as = 0

    def run(self, plan: StepPlan, work: Work) -> int:
        took = self._device.run(plan, work)
        self._slice_as += took
        if self._slice_as >= SLICE_AS:
            self._slice_as = 0
            self._costs.pause()
        return took


class CheckedDevice:
    """A device whose ids are checked against the manager's counts after every step."""

    def __init__(self, device: TorchDevice, manager: Manager) -> None:
        self._device, self._manager = device, manager
        self.held_bytes: list[int] = []
        self.host_as: list[int] = []

    def run(self, plan: StepPlan, work: Work) -> int:
        took = self._device.run(plan, work)
        assert self._device.last is not None
        self.host_as.append(self._device.last.host_as)
        table = self._device.table
        table.check(self._manager)
        resident = table.resident_bytes()  # measured, where it can be
        held = table.held_bytes(self._manager.pool.token_bytes)
        self.held_bytes.append(held if resident is None else resident)
        return took


def validate(setup: Setup, machine: Machine, llama: Llama, repeats: int) -> Validation:
    """Simulate, execute and compare in so many rounds; see the module.

    All replays follow one plan log, that of a prediction before the first round, whose plans are
    priced anew with each round's costs. Durations, and so plans, of free runs differ by round.
    Raises InputError, naming the policy, for whatever a stranger's raises on the way.
    """
    with told_by(setup.policy, setup.label):
        return _validate(setup, machine, llama, repeats)


def _validate(setup: Setup, machine: Machine, llama: Llama, repeats: int) -> Validation:
    executor = Executor(setup, machine, llama)
    costs = Costs(setup, machine, llama)
    warm(executor)
    if setup.ledger.kv.name != "auto":
        setup = replace(setup, label=f"{setup.label} {setup.ledger.kv.name}")
    foreseen, log = predict(costed(setup, costs.table()))
    steps = list(expand(log))
    checked = in_lockstep(setup, executor.fresh(), steps, costs)  # which also warms up every shape
    costs.table()
    pairs, replays = [], []
    for _ in range(repeats):
        free = in_free_run(setup, executor.fresh(), costs)
        known = costed(setup, costs.table())
        replay = in_lockstep(setup, executor.fresh(), steps, costs)
        replays.append(replay)
        prices = costed(setup, costs.table())
        pairs.append(
            Pair(
                predict(known)[0],
                finished(known, free, known.cost(), "measured"),
                prices_of(prices, steps),
                replay.times_as,
            )
        )
    rows = [
        *memory_rows(setup.label, executor, foreseen, checked.held_bytes),
        *lockstep_rows(setup.label, steps, pairs),
        host_row(setup.label, [replay.host_as for replay in replays]),
        *judge_free_runs(setup.label, [(pair.predicted, pair.measured) for pair in pairs]),
    ]
    pairs.sort(key=lambda pair: pair.measured["output_throughput"] or 0.0)
    shown = pairs[len(pairs) // 2]
    times = step_times(steps, replays[-1])
    return Validation(shown.predicted, shown.measured, tuple(rows), tuple(log), times)


def costed(setup: Setup, table: CostTable) -> Setup:
    """The setup with these costs, on the device that they were measured on."""
    return replace(setup, cost_table=table, device=table.device())


def predict(setup: Setup) -> tuple[Run, list[Logged]]:
    """The simulated run and its plan log."""
    effects, _, recorder = start(setup)
    cost, log = setup.cost(), list[Logged]()
    run_simulated(logged(effects, log), cost, host_bytes_per_s=setup.device.host_bytes_per_s)
    return finished(setup, recorder, cost, "simulated"), log


def prices_of(setup: Setup, steps: Sequence[Logged]) -> list[int]:
    """What the setup's costs say that each step takes, what it swaps included. Attoseconds."""
    cost, byte_as = setup.cost(), AS_PER_S // setup.device.host_bytes_per_s
    moved = [step.plan.swap_out_bytes + step.plan.swap_in_bytes for step in steps]
    return [
        cost.linear(step.plan)[0] + size * byte_as for step, size in zip(steps, moved, strict=True)
    ]


class Replay(NamedTuple):
    """What a lockstep replay measured of each step of its log."""

    times_as: list[int]
    host_as: list[int]  # the host's part of each
    held_bytes: list[int]  # that sequences owned after it


def in_lockstep(
    setup: Setup, assembled: Assembled, steps: Sequence[Logged], costs: Costs
) -> Replay:
    """Replay the log, and check ids against the manager's counts after every step."""
    effects, scheduler, _ = start(setup, assembled.scheduler)
    device = CheckedDevice(assembled.device, scheduler.manager)
    times = lockstep(effects, scheduler, PausedDevice(device, costs), iter(steps))
    return Replay(times, device.host_as, device.held_bytes)


def step_times(steps: Sequence[Logged], replay: Replay) -> tuple[StepTime, ...]:
    """A replay's steps, one by one."""
    found = []
    for step, took, host in zip(steps, replay.times_as, replay.host_as, strict=True):
        tokens = step.plan.prefill_tokens + step.plan.decodes
        parts = [round(part / 1e12, 3) for part in (took, host, took - host)]
        found.append(StepTime(kind_of(step.plan), tokens, *parts))
    return tuple(found)


def host_row(policy: str, rounds: Sequence[Sequence[int]]) -> Judged:
    """The host's part of all steps: shown, predicted by nothing."""
    sums = [(None, sum(host) / AS_PER_S) for host in rounds]
    return judge(policy, "lockstep_host_s", "lockstep: the host's part", "s", sums, None)


def in_free_run(setup: Setup, assembled: Assembled, costs: Costs) -> Recorder:
    """What a run that scheduled itself recorded."""
    effects, _, recorder = start(setup, assembled.scheduler)
    free_run(effects, assembled.scheduler, PausedDevice(assembled.device, costs))
    return recorder


def memory_rows(
    policy: str, executor: Executor, predicted: Run, held: Sequence[int]
) -> Iterator[Judged]:
    """Bytes are exact or wrong. `held`: bytes that sequences owned after each single step."""
    allocated = (float(executor.predicted_bytes), float(executor.allocated_bytes))
    yield judge(policy, "kv_allocated_bytes", "KV tensors", "bytes", [allocated], 0.0)
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
        yield judge(policy, f"kv_held_{name}_bytes", title, "bytes", [(simulated, measured)], 0.0)


def lockstep_rows(policy: str, steps: Sequence[Logged], pairs: Sequence[Pair]) -> Iterator[Judged]:
    """Time of all steps, and of each kind of step."""
    for kind in ("all", *KINDS):
        chosen = [i for i, step in enumerate(steps) if kind in ("all", kind_of(step.plan))]
        if not chosen:
            continue
        sums = [
            (
                sum(pair.predicted_as[i] for i in chosen) / AS_PER_S,
                sum(pair.measured_as[i] for i in chosen) / AS_PER_S,
            )
            for pair in pairs
        ]
        label = f"lockstep: {len(chosen)} {kind} steps"
        tolerance = LOCKSTEP_PERCENT if kind == "all" else None
        yield judge(policy, f"lockstep_{kind}_s", label, "s", sums, tolerance)


def kind_of(plan: StepPlan) -> str:
    """What the step does."""
    if not plan.chunks:
        return "decode"
    return "mixed" if plan.decodes else "prefill"


def finished(
    setup: Setup, recorder: Recorder, cost: StepCost, kind: Literal["simulated", "measured"]
) -> Run:
    """The run that was recorded."""
    log = recorder.log()
    run = Run(setup, log, cost, metrics_of(setup, log), kind)
    return run if kind == "simulated" else replace(run, versions=MEASURED_WITH)


def write_times(times: Sequence[StepTime], file: Path) -> None:
    """CSV, a row a step, times in microseconds."""
    rows = [",".join(StepTime._fields), *(",".join(map(str, step)) for step in times)]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
