"""`simulate`: a trace, a model, a device and a policy in; tables and metrics out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Literal, ParamSpec

from sim.cost.base import StepCost
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import Profile
from sim.cost.roofline import Roofline
from sim.engine.ahead import serve_ahead
from sim.engine.limits import Batching, Limits, Preemption, Pressure, Victim
from sim.engine.loop import serve
from sim.engine.record import STATUSES, Column, Log, Recorder
from sim.engine.scheduler import Scheduler
from sim.hardware import Device, find_device
from sim.memory.ledger import Ledger, kv_budget
from sim.model.geometry import Model
from sim.model.presets import find_model
from sim.plan import AS_PER_S
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.policy.spec import Policy
from sim.run.driver import run_simulated
from sim.run.engine_presets import DEFAULT, Engine, find_engine
from sim.run.metrics import Metric, compute_metrics
from sim.run.sampling import sample_interval
from sim.run.session_metrics import session_metrics
from workloads.errors import InputError
from workloads.schema import Trace

Cost = Literal["roofline", "table"]
Options = ParamSpec("Options")

if TYPE_CHECKING:
    import pandas as pd

    from sim.cost.steps.table import CostTable

LONGEST_S = 9_000_000_000
"""Arrivals are counted in nanoseconds of 64 bits, which end after 292 years."""


@dataclass(frozen=True)
class Setup:
    """Everything that decides the outcome of a run."""

    trace: Trace
    model: Model
    device: Device
    policy: Policy
    label: str  # the policy as the user wrote it
    limits: Limits
    ledger: Ledger
    pool: Pool
    tp: int = 1
    gpu_memory_utilization: float = 0.9
    request_rate: float | None = None  # if the trace's own was replaced
    interval_s: float = 1.0  # between samples of the timeline
    horizon_s: float | None = None
    fast_forward: bool = True
    engine: Engine = DEFAULT
    profile: Profile | None = None  # measured kernels
    cost_table: "CostTable | None" = None  # measured steps; without either a roofline predicts

    def cost(self) -> StepCost:
        """A fresh cost model for one run."""
        if self.cost_table is not None:
            from sim.cost.steps.model import Calibrated  # late: few runs have measurements

            token_bytes = self.policy.manager(self.pool).pool.token_bytes
            return Calibrated(
                self.cost_table, self.model, self.policy, self.ledger.kv.name, token_bytes
            )
        if self.profile is None:
            return Roofline(self.model, self.device, self.tp)
        return KernelTable(
            self.model,
            self.device,
            self.profile,
            tp=self.tp,
            token_bytes=self.pool.token_bytes,
            kv=self.ledger.kv,
            rules=self.engine.kernels,
        )


@dataclass(frozen=True)
class Run:
    """A finished run. The tables are pandas data frames, times in seconds."""

    setup: Setup
    log: Log
    cost: StepCost
    metrics_list: list[Metric] = field(repr=False)
    kind: Literal["simulated", "measured"] = "simulated"
    versions: tuple[str, ...] = ("numpy", "simpy", "pyarrow")  # of packages that made the numbers

    @cached_property
    def requests(self) -> "pd.DataFrame":
        """One row a request."""
        frame = _frame(self.log.requests)
        frame["status"] = [STATUSES[code] for code in frame["status"]]
        return frame

    @cached_property
    def steps(self) -> "pd.DataFrame":
        """One row an event: `steps` engine steps of an unchanged batch."""
        return _frame(self.log.steps)

    @cached_property
    def timeline(self) -> "pd.DataFrame":
        """Samples at a fixed interval of simulated time."""
        return _frame(self.log.timeline)

    @cached_property
    def metrics(self) -> "pd.DataFrame":
        """The metrics table: name, label, unit, formula, value."""
        import pandas as pd

        return pd.DataFrame(self.metrics_list)

    def __getitem__(self, name: str) -> int | float | None:
        """A metric's value by name."""
        return next(metric.value for metric in self.metrics_list if metric.name == name)


def prepare(
    trace: Trace | str,
    *,
    model: Model | str,
    gpu: Device | str,
    policy: str = "paging",
    tp: int = 1,
    request_rate: float | None = None,
    samples: int = 1,
    max_num_seqs: int = 256,
    max_num_batched_tokens: int = 2048,
    max_model_len: int | None = None,
    batching: Batching = "continuous",
    preemption: Preemption = "recompute",
    swap_space_bytes: int = 4 << 30,
    victim: Victim = "last",
    kv_cache_dtype: str = "auto",
    gpu_memory_utilization: float = 0.9,
    kv_cache_memory_bytes: int | None = None,
    engine: Engine | str = DEFAULT,
    cost: Cost | None = None,
    profile: Profile | str | None = None,
    horizon_s: float | None = None,
    fast_forward: bool = True,
    cost_table: "CostTable | None" = None,
) -> Setup:
    """Everything that decides a run: names and defaults resolved, and checked to fit together.

    `trace` is a Trace, a path or the name of a shipped trace; `request_rate` rescales its arrivals
    to so many requests a second, each of which asks for `samples` outputs of its prompt.
    `max_model_len` defaults to the model's own longest context.
    `engine` names a preset; `profile` a kernel profile, shipped or a file, for `cost="table"`.
    `cost_table` holds measured step times (`sim.cost.steps.table.read_table`).
    Raises InputError where the input can't be used.
    """
    if isinstance(trace, str):
        from workloads import read_trace

        trace = read_trace(trace)
    if request_rate is not None:
        from workloads.transform import scale_rate

        trace = scale_rate(trace, request_rate)
    if samples != 1:
        from workloads.transform import sample

        trace = sample(trace, samples)
    model = find_model(model) if isinstance(model, str) else model
    device = find_device(gpu) if isinstance(gpu, str) else gpu
    preset = find_engine(engine) if isinstance(engine, str) else engine
    kernels = _profile(cost, profile, device, model, tp)
    limits = Limits(
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len if max_model_len is not None else model.max_position_embeddings,
        batching,
        Pressure(preemption, swap_space_bytes, victim),
        preset.rules,
    )
    ledger = kv_budget(
        model,
        device,
        tp=tp,
        kv_dtype=kv_cache_dtype,
        gpu_memory_utilization=gpu_memory_utilization,
        kv_cache_memory_bytes=kv_cache_memory_bytes,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
    )
    ledger = preset.adapt_ledger(ledger)
    if horizon_s is not None and not 0 < horizon_s <= LONGEST_S:
        raise InputError(f"horizon {horizon_s} s, expected more than 0 and at most {LONGEST_S}")
    if len(trace) and trace.arrival_s[-1] > LONGEST_S:
        raise InputError(
            f"{trace.name}: arrivals span {trace.arrival_s[-1]:g} s, expected at most {LONGEST_S}"
        )
    setup = Setup(
        trace=trace,
        model=model,
        device=device,
        policy=preset.adapt(parse_policy(policy), policy),
        label=policy,
        limits=limits,
        ledger=ledger,
        pool=ledger.pool(limits.max_model_len),
        tp=tp,
        gpu_memory_utilization=gpu_memory_utilization,
        request_rate=request_rate,
        horizon_s=horizon_s,
        fast_forward=fast_forward,
        engine=preset,
        profile=kernels,
        cost_table=cost_table,
    )
    return replace(setup, interval_s=sample_interval(setup))


def with_policy(setup: Setup, policy: str) -> Setup:
    """The same run under another policy."""
    adapted = setup.engine.adapt(parse_policy(policy), policy)
    changed = replace(setup, policy=adapted, label=policy)
    return replace(changed, interval_s=sample_interval(changed))


def execute(setup: Setup, cost: StepCost | None = None) -> Run:
    """Run a prepared simulation, under another cost model than its own if one is given."""
    skewed = setup.profile is not None and setup.engine.kernels.length_skew
    scheduler = Scheduler(setup.policy.manager(setup.pool), setup.limits, knows_longest=skewed)
    recorder = Recorder(setup.trace, setup.interval_s)
    model = cost or setup.cost()
    horizon = None if setup.horizon_s is None else round(setup.horizon_s * AS_PER_S)
    loop = serve_ahead if setup.limits.rules.async_scheduling else serve
    run_simulated(
        loop(setup.trace, scheduler, recorder, horizon),
        model,
        setup.fast_forward,
        setup.device.host_bytes_per_s,
    )
    log = recorder.log()
    metrics = compute_metrics(log, setup.pool.capacity_bytes)
    return Run(setup, log, model, metrics + session_metrics(log, setup.trace))


def _executed(prepare: Callable[Options, Setup]) -> Callable[Options, Run]:
    """What prepares a run and runs it, with the options spelled once."""

    def simulate(*args: Options.args, **options: Options.kwargs) -> Run:
        """Replay a trace through one policy in simulated time. Arguments are those of `prepare`."""
        return execute(prepare(*args, **options))

    shown = signature(prepare).replace(return_annotation=Run)
    simulate.__signature__ = shown  # type: ignore[attr-defined]  # by help() and editors
    return simulate


simulate = _executed(prepare)


def _profile(
    cost: Cost | None, profile: Profile | str | None, device: Device, model: Model, tp: int
) -> Profile | None:
    """The kernel times to predict from; None for the roofline, which is the default."""
    if cost == "roofline" or (cost is None and profile is None):
        if profile is not None:
            raise InputError("--cost roofline: reads no --profile, expected --cost table")
        return None
    if isinstance(profile, str):
        from sim.cost.kernels.profile import find_profile

        return find_profile(profile)
    if profile is None:
        from sim.cost.kernels.profile import profile_for

        profile = profile_for(device.name, model.name, tp)
    if profile is None:
        raise InputError(
            f"--cost table: no shipped profile of {model.name} on {device.name} with tp {tp}; "
            "expected --profile (see: kvtwin list profiles)"
        )
    return profile


def _frame(columns: Mapping[str, Column]) -> "pd.DataFrame":
    import pandas as pd  # late: starting without it is three times faster

    return pd.DataFrame(dict(columns))
