"""`simulate`: a trace, a model, a device and a policy in; tables and metrics out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from sim.cost.base import StepCost
from sim.engine.ahead import serve_ahead
from sim.engine.closed_loop import ClosedLoop
from sim.engine.limits import Limits, Pressure
from sim.engine.loop import Effects, serve
from sim.engine.record import STATUSES, Column, Log, Recorder, Sink
from sim.engine.requests import AS_PER_NS
from sim.engine.scheduler import Scheduler
from sim.hardware import Device, find_device
from sim.memory.ledger import Ledger
from sim.model.geometry import Model
from sim.model.kv_formats import limitation
from sim.policy.manager import Manager, Pool
from sim.policy.registry import label_of, parse_policy
from sim.policy.spec import Policy
from sim.run.costs import CostSpec, find_costs
from sim.run.driver import run_simulated
from sim.run.engine_presets import DEFAULT, Engine
from sim.run.form import compiled_log, compiles
from sim.run.judged import expect_served, metrics_of
from sim.run.keywords import by_keyword
from sim.run.ledgers import resolved
from sim.run.load import (
    Replay,
    checked_seed,
    closed_loop,
    given_trace,
    replay_of,
    replicas_of,
    requests_of,
)
from sim.run.metrics import Metric
from sim.run.money import Money, money
from sim.run.options import RunOptions
from sim.run.sampling import sample_interval
from sim.run.seam import manager_of, told_by, try_out
from sim.run.service_level import ServiceLevel, parse_level
from sim.run.step_costs import step_cost
from sim.run.warm_up import WarmUp, parse_warm_up
from workloads.errors import InputError
from workloads.schema import Trace, TraceLike
from workloads.spec import suggestion

if TYPE_CHECKING:
    import pandas as pd

    from sim.cost.kernels.profile import Profile
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
    closed: ClosedLoop | None = None  # users in place of the trace's stamps
    replay: Replay | None = None  # of a trace with sessions
    warm_up: WarmUp | None = None  # what the metrics leave out
    horizon_s: float | None = None
    fast_forward: bool = True
    engine: Engine = DEFAULT
    profile: "Profile | None" = None  # measured kernels
    cost_table: "CostTable | None" = None  # measured steps
    own_cost: CostSpec | None = None  # of a third party; without any a roofline predicts
    level: ServiceLevel | None = None
    money: Money = Money()
    replicas: int = 1
    lockstep: bool = False  # data-parallel ranks: the replicas share experts, and every step
    router: str = "round-robin"

    @property
    def gpus(self) -> int:
        """Devices of the whole run."""
        return self.tp * self.replicas

    @property
    def capacity_bytes(self) -> int:
        """KV budget on one device of each replica, together."""
        return self.pool.capacity_bytes * self.replicas

    @property
    def limitation(self) -> str | None:
        """What answers lose, by how KV is stored or by the policy; None for nothing."""
        with told_by(self.policy, self.label):
            lost = self.policy.limitation
        return "; ".join(filter(None, (self.stored_loss, lost))) or None

    @property
    def stored_loss(self) -> str | None:
        """What answers lose by how KV is stored, whatever the policy."""
        return limitation(self.model, self.ledger.kv)

    @property
    def name(self) -> str:
        """What tells the run from others of its command."""
        return f"{self.label}, as stamped" if self.replay == "stamps" else self.label

    @property
    def horizon_as(self) -> int | None:
        """The horizon in attoseconds, to the nanosecond as arrivals are."""
        return None if self.horizon_s is None else round(self.horizon_s * 1e9) * AS_PER_NS

    @property
    def knows_longest(self) -> bool:
        """Whether its cost model asks for the longest context."""
        return self.profile is not None and self.engine.kernels.length_skew

    @property
    def where(self) -> str:
        """The model and what it runs on, in words."""
        parts = [f"{self.model.name} on {self.device.name}"]
        if self.tp > 1:
            parts.append(f"tp {self.tp}")
        if self.replicas > 1:
            parts.append(f"{self.replicas} {'ranks' if self.lockstep else 'replicas'}")
        return ", ".join(parts)

    def manager(self) -> Manager:
        """A fresh manager of the policy. Raises InputError where a stranger's makes none."""
        return manager_of(self.policy, self.pool, self.label)

    def cost(self) -> StepCost:
        """A fresh cost model for one run."""
        if self.lockstep:
            from sim.run.lockstep import ranks_cost  # late: few runs have ranks

            return ranks_cost(self)
        return step_cost(self)


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run. The tables are pandas data frames, times in seconds.

    A run equals itself alone; what two measured is compared by their metrics and tables.
    """

    setup: Setup
    log: Log
    cost: StepCost
    metrics_list: list[Metric] = field(repr=False)
    kind: Literal["simulated", "measured"] = "simulated"
    versions: tuple[str, ...] = ("numpy", "simpy", "pyarrow")  # of packages that made the numbers
    counted: tuple[str, ...] = ()  # metrics that a measured engine counted itself

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
        """A metric's value by name. Raises KeyError with the closest one."""
        found = {metric.name: metric.value for metric in self.metrics_list}
        if name not in found:
            raise KeyError(f"no metric {name!r}; {suggestion(name, found)}")
        return found[name]

    def report(self, path: str | Path) -> Path:
        """Write the HTML report of this run to `path`, which is returned."""
        from sim.run.report import report_runs  # late: it loads plotly

        return report_runs([self], path)

    def __repr__(self) -> str:
        setup = self.setup
        return f"<Run {setup.name}: {setup.where}, {self.kind}, {len(setup.trace):,} requests>"

    def _repr_html_(self) -> str:
        """A table of the metrics, for notebooks."""
        from reports.formats import number, shown_unit

        rows = "".join(
            f"<tr><td title='{escape(m.formula)}'>{escape(m.label)}</td>"
            f"<td style='text-align:right'>{escape(number(m.value, m.unit))}</td>"
            f"<td>{escape(shown_unit(m.unit))}</td></tr>"
            for m in self.metrics_list
        )
        title = f"{self.setup.label}: {self.setup.where}"
        return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def prepared(trace: TraceLike, options: RunOptions) -> Setup:
    """Everything that decides a run: names and defaults resolved, and checked to fit together.

    `trace` is a Trace, a path, the name of a shipped trace, or a data frame or mapping of a trace's
    columns. Raises InputError where the input
    can't be used.
    """
    checked_seed(options.seed)
    given = given_trace(trace, options)
    requests = requests_of(given, options)
    costs = find_costs(options)
    gpu = options.gpu
    if gpu is None:
        if costs.table is None:
            raise InputError("--gpu: missing; expected a device, or --cost with a measured one")
        gpu = costs.table.device()
    device = find_device(gpu) if isinstance(gpu, str) else gpu
    engine = resolved(options, device)
    preset, model = engine.engine, engine.model
    limits = Limits(
        engine.max_num_seqs,
        engine.max_num_batched_tokens,
        model.max_position_embeddings if options.max_model_len is None else options.max_model_len,
        options.batching,
        Pressure(options.preemption, options.swap_space_bytes, options.victim),
        preset.rules,
        options.long_prefill_token_threshold,
    )
    if options.data_parallel != 1:
        from sim.run.lockstep import refuse_unlike  # late: few runs have ranks

        refuse_unlike(options, model, costs)
    ledger = preset.adapt_ledger(engine.ledger(expert_ranks=options.data_parallel))
    horizon_s = options.horizon
    if horizon_s is not None and not (horizon_s <= LONGEST_S and round(horizon_s * 1e9) > 0):
        raise InputError(
            f"--horizon {horizon_s:g}: expected at least 1e-09 s, a tick of the clock, and at most "
            f"{LONGEST_S} s"
        )
    if len(requests) and requests.arrival_s[-1] > LONGEST_S:
        last_s = requests.arrival_s[-1]
        raise InputError(
            f"{requests.name}: arrivals span {last_s:g} s, expected at most {LONGEST_S}"
        )
    setup = Setup(
        trace=requests,
        model=model,
        device=device,
        policy=preset.adapt(*_named(options.policy), model),
        label=_named(options.policy)[1],
        limits=limits,
        ledger=ledger,
        pool=_pool(ledger, limits, preset),
        tp=options.tp,
        gpu_memory_utilization=options.gpu_memory_utilization,
        request_rate=options.request_rate,
        closed=closed_loop(options),
        replay=replay_of(given, options),
        warm_up=parse_warm_up(options.warm_up),
        horizon_s=horizon_s,
        fast_forward=options.fast_forward,
        engine=preset,
        profile=None if costs.kernels is None else costs.kernels(device, model),
        cost_table=costs.table,
        own_cost=costs.own,
        level=None if options.slo is None else parse_level(options.slo),
        money=money(device.name, options.price, options.watts),
        replicas=replicas_of(options) * options.data_parallel,
        lockstep=options.data_parallel > 1,
        router=options.router,
    )
    return replace(setup, interval_s=sample_interval(setup))


def _named(policy: Policy | str) -> tuple[Policy, str]:
    """The policy and its command-line form."""
    return (parse_policy(policy), policy) if isinstance(policy, str) else (policy, label_of(policy))


def _pool(ledger: Ledger, limits: Limits, engine: Engine) -> Pool:
    """The memory that a policy manages, and what the engine's way to plan means for it."""
    planned = limits.max_num_batched_tokens * (1 + limits.rules.async_scheduling)
    return replace(
        ledger.pool(limits.max_model_len),
        null_blocks=engine.null_blocks,
        in_flight_tokens=planned if limits.batching == "continuous" else 0,
    )


def with_policy(setup: Setup, policy: Policy | str) -> Setup:
    """The same run under another policy."""
    parsed, label = _named(policy)
    changed = replace(setup, policy=setup.engine.adapt(parsed, label, setup.model), label=label)
    return replace(changed, interval_s=sample_interval(changed))


class Started(NamedTuple):
    """A run that a driver can carry out, and where it is recorded."""

    effects: Effects
    scheduler: Scheduler
    recorder: Recorder


def start(
    setup: Setup,
    scheduler: Scheduler | None = None,
    told: Callable[[float], None] | None = None,
    sink: Sink | None = None,
) -> Started:
    """Wire a run: the loop that the engine's rules ask for, over a fresh scheduler or this one.

    `told` hears now and then what share of the requests has left; tables go to the `sink`.
    """
    if scheduler is None:
        manager = setup.manager()
        with told_by(setup.policy, setup.label):
            scheduler = Scheduler(manager, setup.limits, setup.knows_longest)
    recorder = Recorder(setup.trace, setup.interval_s, told, sink)
    loop = serve_ahead if setup.limits.rules.async_scheduling else serve
    effects = loop(setup.trace, scheduler, recorder, setup.horizon_as, setup.closed)
    return Started(effects, scheduler, recorder)


def execute(
    setup: Setup,
    cost: StepCost | None = None,
    told: Callable[[float], None] | None = None,
    sink: Sink | None = None,
) -> Run:
    """Run a prepared simulation, under another cost model than its own if one is given.

    The tables of requests and events are kept in memory, or go to the `sink` while it runs.
    """
    try_out(setup.policy, setup.pool, setup.label)
    if setup.replicas > 1:
        from sim.run.replicas import simulate_replicas  # late: few runs have several

        with told_by(setup.policy, setup.label):
            log, (model, *_) = simulate_replicas(setup, start)
        expect_served(setup, log)
        return Run(setup, log, model, metrics_of(setup, log))
    model = cost or setup.cost()
    with told_by(setup.policy, setup.label):
        if compiles(setup, model):
            log = compiled_log(setup, model, told, sink)
        else:
            started = start(setup, told=told, sink=sink)
            run_simulated(started.effects, model, setup.fast_forward, setup.device.host_bytes_per_s)
            log = started.recorder.log()
    expect_served(setup, log)
    return Run(setup, log, model, metrics_of(setup, log))


def simulated(trace: TraceLike, options: RunOptions) -> Run:
    """Replay a trace through one policy in simulated time, under the options of `RunOptions`."""
    return execute(prepared(trace, options))


prepare = by_keyword("prepare", prepared, RunOptions)
simulate = by_keyword("simulate", simulated, RunOptions)


def _frame(columns: Mapping[str, Column]) -> "pd.DataFrame":
    import pandas as pd  # late: starting without it is three times faster

    return pd.DataFrame(dict(columns))
