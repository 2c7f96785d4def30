"""Random histories: a few requests through any policy, engine and cost model, by number.

History n of a seed is always the same, so one that breaks a law can be looked at alone.
"""

from dataclasses import dataclass, replace
from functools import cache
from random import Random

import numpy as np

from sim.cost.base import StepCost
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import find_profile
from sim.cost.kernels.rules import KernelRules
from sim.cost.roofline import FixedStep, Roofline
from sim.cost.steps.model import Calibrated
from sim.cost.steps.table import CostTable
from sim.engine.ahead import serve_ahead
from sim.engine.closed_loop import ClosedLoop
from sim.engine.limits import Limits, Pressure, Rules
from sim.engine.loop import serve
from sim.engine.record import Log, Recorder
from sim.engine.requests import AS_PER_NS
from sim.engine.scheduler import Scheduler
from sim.hardware import find_device
from sim.model.layers import LayerGroup
from sim.model.presets import find_model
from sim.policy.manager import Manager, Pool, Stored
from sim.policy.registry import parse_policy as parse_anew
from sim.policy.spec import Policy
from sim.run.driver import run_simulated
from sim.run.metrics import compute_metrics
from workloads.errors import InputError
from workloads.schema import PrefixBlocks, Provenance, Trace

FULL = ((LayerGroup(2, "full", 2, 16, 16),), (Stored(64, 64),))
MIXED = (
    (LayerGroup(1, "full", 2, 16, 16), LayerGroup(2, "window", 2, 16, 16, window=7)),
    (Stored(64, 64), Stored(64, 64)),
)
WIDE = ((LayerGroup(2, "full", 40, 80, 80),), (Stored(6400, 6400),))  # a page ends within a token
COSTS = ("roofline", "kernels", "calibrated", "fixed")
ENGINES = ("in step", "ahead", "static")


@cache
def parse_policy(spec: str) -> Policy:
    """Parsed once: it takes as long as a run."""
    return parse_anew(spec)


@dataclass(frozen=True)
class History:
    """All that decides a run, and can be changed one by one."""

    number: int
    trace: Trace
    policy: str
    pool: Pool
    limits: Limits
    cost: str
    interval_s: float
    horizon_s: float | None = None
    closed: ClosedLoop | None = None
    fast_forward: bool = True
    times: int = 1  # all durations times so much

    @property
    def engine(self) -> str:
        if self.limits.batching == "static":
            return "static"
        return "ahead" if self.limits.rules.async_scheduling else "in step"


@dataclass(frozen=True)
class Outcome:
    """A history and what came of it."""

    history: History
    log: Log
    metrics: dict[str, int | float | None]
    manager: Manager

    def __getitem__(self, metric: str) -> int | float | None:
        return self.metrics[metric]


class Slower:
    """A cost model whose every step takes so many times as long."""

    constants = warnings = ()

    def __init__(self, cost: StepCost, times: int) -> None:
        self.name, self._linear, self._times = cost.name, cost.linear, times

    def linear(self, plan):  # type: ignore[no-untyped-def]
        first, growth, valid = self._linear(plan)
        return self._times * first, self._times * growth, valid


def run(history: History) -> Outcome:
    """Serve the history's requests in simulated time."""
    manager = parse_policy(history.policy).manager(history.pool)
    skewed = history.cost == "kernels"
    scheduler = Scheduler(manager, history.limits, knows_longest=skewed)
    recorder = Recorder(history.trace, history.times * history.interval_s)
    horizon_s = history.horizon_s
    horizon = None if horizon_s is None else history.times * round(horizon_s * 1e9) * AS_PER_NS
    loop = serve_ahead if history.engine == "ahead" else serve
    run_simulated(
        loop(history.trace, scheduler, recorder, horizon, history.closed),
        Slower(cost_of(history, manager), history.times),
        history.fast_forward,
        32 * 10**9 // history.times,
    )
    manager.check_integrity()
    log = recorder.log()
    metrics = compute_metrics(log, history.pool.capacity_bytes)
    return Outcome(history, log, {metric.name: metric.value for metric in metrics}, manager)


# -- cost models -------------------------------------------------------------------------------


def cost_of(history: History, manager: Manager) -> StepCost:
    if history.cost == "calibrated":
        return calibrated(history.policy, manager.pool.token_bytes)
    return plain_cost(history.cost)


@cache
def plain_cost(name: str) -> StepCost:
    if name == "fixed":
        return FixedStep(0.0078125, "made up")
    model, device = find_model("llama-3.1-8b"), find_device("rtx-4090")
    if name == "roofline":
        return Roofline(model, device)
    profile = find_profile("rtx-4090-llama-3.1-8b-tp1")
    return KernelTable(model, device, profile, rules=KernelRules(length_skew=True))


@cache
def calibrated(policy: str, token_bytes: int) -> StepCost:
    """Measured steps that aren't there: linear between made-up knots, with kinks at them."""
    model = find_model("llama-small")
    decode = [
        {"batch": n, "context": [2, 20, 90], "seconds": [1e-3 * n, 1.5e-3 * n, 9e-3 * n]}
        for n in (1, 3, 8)
    ]
    prefill = [{"tokens": n, "past": [0, 30], "seconds": [2e-4 * n, 3e-4 * n]} for n in (1, 16, 64)]
    hardware = {"kind": "cpu", "name": "made up", "threads": 1, "memory_bytes": 1, "clock": "none"}
    rates = {"copy_bytes_per_s": 1, "matmul_flops_per_s": 1}
    content = {
        "schema_version": 1,
        "kind": "kvtwin cost table",
        "created_at": "never",
        "versions": {},
        "hardware": hardware | rates,
        "model": {"name": "", "parameters": model.parameters, "dtype_bytes": model.dtype_bytes},
        "method": "made up",
        "elapsed_s": 0,
        "dense": {"knots": [1, 64], "seconds": [1e-4, 64e-4]},
        "sampling": {"knots": [0, 1, 8], "seconds": [0, 1e-6, 8e-6]},
        "sections": [
            {
                "policy": policy,
                "kv_dtype": "auto",
                "token_bytes": token_bytes,
                "kept_tokens": None,
                "decode": decode,
                "prefill": prefill,
            }
        ],
    }
    table = CostTable.model_validate(content)
    return Calibrated(table, model, parse_policy(policy), "auto", token_bytes)


# -- drawing -----------------------------------------------------------------------------------


def history(seed: int, number: int) -> History:
    """The history of that number. Compositions and pools that don't go together are drawn again."""
    draw = Random(f"{seed} {number}")
    while True:
        spec, limits = policy(draw), _limits(draw)
        groups, stored = WIDE if "virtual" in spec else draw.choice([FULL, FULL, MIXED])
        bare = Pool(0, 0, limits.max_model_len, groups=groups).storing(stored)
        capacity = draw.randint(24, 220) * bare.token_bytes + draw.randint(0, 40)
        pool = replace(bare, capacity_bytes=capacity)
        try:
            manager = parse_policy(spec).manager(pool)
        except InputError:
            continue
        if manager.longest() > 0:
            break
    trace = _trace(draw, prefix="prefix" in spec)
    closed = None
    if draw.random() < 0.1:
        closed = ClosedLoop(draw.randint(1, 4), draw.choice([0.0, 0.05]), draw.random() < 0.5)
    return History(
        number,
        trace,
        spec,
        pool,
        limits,
        draw.choice(COSTS),
        draw.choice([0.002, 0.01, 0.05]),
        draw.choice([None, None, None, draw.randint(1, 300) / 1000]),
        closed,
        draw.random() < 0.8,
    )


def policy(draw: Random) -> str:
    """Any composition, most of which go together."""
    one = draw.randint
    size = draw.choice([1, 2, 3, 4, 8, 16])
    allocator = draw.choice(["first_fit", "buddy"])
    placement = draw.choice(
        [
            f"paging:block_size={size}",
            f"paging:block_size={size},watermark={draw.choice([0.05, 0.2])}",
            f"paging:block_size={size},layers={draw.choice(['unified', 'capped'])}",
            f"paging:block_size={size}+prefix",
            f"paging:block_size={size},watermark={draw.choice([0.0, 0.1])}+prefix",
            f"chunked:chunk_tokens={one(4, 40)}",
            "virtual",
            "preallocation",
            f"preallocation:max_len={one(8, 60)}",
            f"preallocation:reserve={draw.choice(['pow2', 'oracle'])},allocator={allocator}",
            f"growing:start={one(1, 12)},allocator={allocator}",
            f"growing:start={one(1, 12)},step={one(1, 9)},allocator={allocator}",
        ]
    )
    retention = draw.choice(
        [
            "",
            "",
            f"+sliding_window:window={one(1, 30)},sinks={one(0, 3)}",
            f"+top_k:k={one(1, 20)},page={draw.choice([1, 2, size])}",
            f"+top_k:k={one(1, 20)},mode=evict",
        ]
    )
    if "prefix" in placement:
        retention = ""
    storage = draw.choice(["", "", "", "+fp8", "+int8", "+int4"])
    return placement + retention + storage


def _limits(draw: Random) -> Limits:
    seqs = draw.randint(1, 6)
    batching = draw.choice(["continuous", "continuous", "continuous", "static"])
    rules = Rules(
        async_scheduling=batching == "continuous" and draw.random() < 0.4,
        reserve_whole_prompt=draw.random() < 0.6,
        preempted_first=draw.random() < 0.7,
        admit_after_preemption=draw.random() < 0.4,
    )
    pressure = Pressure(
        draw.choice(["recompute", "swap"]),
        draw.choice([100, 4000, 10**9]),
        draw.choice(["last", "last", "longest", "shortest"]),
    )
    budget, longest = draw.randint(seqs, 24), draw.randint(4, 90)
    return Limits(seqs, budget, longest, batching, pressure, rules)


def _trace(draw: Random, prefix: bool) -> Trace:
    n = draw.randint(1, 14)
    gaps = [draw.choice([0, 0, 1, 5, 20, 80]) for _ in range(n)]
    prompts = [draw.randint(1, draw.choice([8, 40, 60])) for _ in range(n)]
    outputs = [draw.choice([1, draw.randint(1, 40), draw.randint(1, 40), 10**6]) for _ in range(n)]
    blocks = _prefix(draw, prompts) if prefix and draw.random() < 0.8 else None
    arrivals = np.cumsum(np.array([0, *gaps[1:]])) / 1000
    return made(arrivals.tolist(), prompts, outputs, blocks)


def made(
    arrivals: list[float],
    prompts: list[int],
    outputs: list[int],
    prefix: PrefixBlocks | None = None,
) -> Trace:
    """A trace of these columns."""
    return Trace(
        "made",
        np.array(arrivals, dtype=np.float64),
        np.array(prompts, dtype=np.int64),
        np.array(outputs, dtype=np.int64),
        Provenance("made", len(arrivals)),
        prefix,
    )


def _prefix(draw: Random, prompts: list[int]) -> PrefixBlocks:
    """Each prompt begins like one of two texts, for so many blocks of any unit."""
    unit = draw.choice([1, 3, 4, 7])
    ids: list[int] = []
    offsets = [0]
    for prompt in prompts:
        text, same = draw.randint(0, 1), draw.randint(0, 20)
        for block in range(-(-prompt // unit)):
            shared = block < same and (block + 1) * unit <= prompt
            ids.append(2 * block + text if shared else 1000 + len(ids))
        offsets.append(len(ids))
    return PrefixBlocks(unit, np.array(offsets), np.array(ids))
