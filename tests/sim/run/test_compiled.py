"""The compiled form: the same sources, lowered, do to the byte what the objects do."""

import os
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import find_profile
from sim.cost.kernels.rules import KernelRules
from sim.engine.ahead import serve_ahead
from sim.engine.limits import Limits
from sim.engine.loop import serve
from sim.engine.record import Log, Recorder
from sim.engine.requests import AS_PER_NS
from sim.engine.scheduler import Scheduler
from sim.hardware import find_device
from sim.model.layers import LayerGroup
from sim.model.presets import find_model
from sim.model.states import StateGroup, StatePart
from sim.plan import AS_PER_S
from sim.policy.counting.pages import Pages
from sim.policy.manager import Manager, Pool, Stored
from sim.policy.registry import parse_policy
from sim.run.compiled import given, state
from sim.run.compiled.build import MANAGERS, lowered
from sim.run.compiled.execute import Job, hindrance, run_compiled
from sim.run.compiled.rules import NotLowered
from sim.run.compiled.seconds import seconds
from sim.run.driver import run_simulated, steps_to_reach
from tests.sim.histories.made import (
    FULL,
    MIXED,
    History,
    calibrated,
    cost_of,
    history,
    made,
    plain_cost,
)
from workloads.schema import PrefixBlocks

VALUES = int(os.environ.get("COMPILED_VALUES", "40_000"))
HISTORIES = int(os.environ.get("COMPILED_HISTORIES", "60"))
COST = plain_cost("roofline")
STATES = (StateGroup(2, "mamba", (StatePart("state", 150, 2, 1),)),)
CHOSEN = (
    LayerGroup(2, "sparse_mla", 1, 40, 0, latent_dim=32, selects=6),
    LayerGroup(1, "indexer", 1, 8, 0),
)


def test_seconds_are_those_of_exact_division() -> None:
    """Half of the values lie next to a midpoint between two doubles, where rounding is decided."""
    draw = Random(7)
    values = [draw.randrange(10 ** draw.randrange(1, 28)) for _ in range(VALUES // 2)]
    for _ in range(VALUES // 4):
        least = draw.random() * 10.0 ** draw.uniform(-9, 9)
        numerator, denominator = least.as_integer_ratio()
        above, below = np.nextafter(least, np.inf).item().as_integer_ratio()
        middle = (numerator * below + above * denominator) * AS_PER_S // (2 * denominator * below)
        values += [middle, middle + 1]
    found = seconds(*zip(*(divmod(value, AS_PER_S) for value in values), strict=True)).tolist()
    assert found == [value / AS_PER_S for value in values]


def test_a_pair_of_64_bits_counts_as_a_long_integer_does() -> None:
    draw = Random(8)
    for _ in range(2000):
        first, growth = draw.randrange(1, 10**17), draw.choice([0, draw.randrange(10**12)])
        limit = draw.randint(1, 5000)
        span = draw.randrange(10**20)
        whole, rest = given.lasting(limit, first, growth)
        assert whole * AS_PER_S + rest == limit * first + growth * (limit * (limit - 1) // 2)
        expected = steps_to_reach(first, growth, span, limit)
        assert given.steps_to_reach(first, growth, *divmod(span, AS_PER_S), limit) == expected


def drawn(number: int) -> History:
    """The history, every tenth with states of sequences, another one with chosen tokens, another
    with windows of some layers, and half of those that share prefixes with the oldest free block
    used first."""
    one = history(3, number)
    if number % 2:
        one = replace(one, policy=one.policy.replace("+prefix", "+prefix:reuse=oldest"))
    pool = one.pool
    if number % 10 == 3:
        pool = replace(pool, groups=FULL[0], states=STATES).storing(FULL[1])
    elif number % 10 == 5:
        pool = replace(pool, groups=MIXED[0]).storing(MIXED[1])
        spec = f"paging:block_size={1 + number % 4},layers=unified"
        return replace(one, policy=spec, pool=pool)
    elif number % 10 == 7:
        pool = replace(pool, groups=CHOSEN).storing((Stored(80, 0), Stored(12, 0)))
    else:
        return one
    return replace(one, policy=f"paging:block_size={1 + number % 5}", pool=pool)


def job(given_history: History) -> Job:
    """The history, as far as it can be compiled: in an open loop."""
    horizon_s = given_history.horizon_s
    manager = parse_policy(given_history.policy).manager(given_history.pool)
    return Job(
        given_history.trace,
        manager,
        given_history.limits,
        cost_of(given_history, manager),
        given_history.interval_s,
        None if horizon_s is None else round(horizon_s * 1e9) * AS_PER_NS,
        None,
        given_history.fast_forward,
        knows_longest=True,
    )


def interpreted(work: Job, manager: Manager) -> Log:
    recorder = Recorder(work.trace, work.interval_s)
    scheduler = Scheduler(manager, work.limits, work.knows_longest)
    loop = serve_ahead if work.limits.rules.async_scheduling else serve
    effects = loop(work.trace, scheduler, recorder, work.horizon_as)
    run_simulated(effects, work.cost, work.fast_forward)
    return recorder.log()


def same(one: Log, other: Log) -> None:
    """To the last bit, NaN included."""
    for table in ("requests", "steps", "timeline"):
        columns, others = getattr(one, table), getattr(other, table)
        assert list(columns) == list(others)
        for name, column in columns.items():
            assert column.dtype == others[name].dtype, name
            assert column.tobytes() == others[name].tobytes(), (table, name)
    assert one.resume_gaps_s.tobytes() == other.resume_gaps_s.tobytes()
    assert one.resumed_s.tobytes() == other.resumed_s.tobytes()
    assert one.end_s == other.end_s


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("compiled", [False, True])
def test_random_histories_give_the_same_bytes(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, and through windows of one request and more. `make compiled` runs 2,000 of them
    through machine code."""
    if compiled and "COMPILED_HISTORIES" not in os.environ:
        pytest.skip("compiling takes minutes: make compiled")
    kinds: set[type] = set()
    done = preemptions = number = 0
    histories = HISTORIES if compiled else 90  # the same text under Python takes its time
    while done < histories:
        one = drawn(number)
        number += 1
        work = job(one)
        if hindrance(work) is not None:
            continue
        expected = interpreted(work, parse_policy(one.policy).manager(one.pool))
        same(run_compiled(work, compiled), expected)
        with monkeypatch.context() as few:
            few.setattr(state, "ROWS", 1 + done % 3)
            same(run_compiled(job(one), compiled, slots=1 + done % 4), expected)
        kinds.add(type(work.manager))
        preemptions += int(expected.requests["preemptions"].sum())
        done += 1
    assert kinds == set(MANAGERS)
    assert preemptions >= histories // 10  # memory was short


@pytest.mark.parametrize("compiled", [False, True])
def test_blocks_let_go_first_are_used_first_when_memory_is_short(compiled: bool) -> None:
    """As vLLM 0.19 has it: several samples of a prompt, in a pool of two or three such requests."""
    if compiled and "COMPILED_HISTORIES" not in os.environ:
        pytest.skip("compiling takes minutes: make compiled")
    preemptions = found = swapped = 0
    for number in range(HISTORIES if compiled else 40):
        one, draw = history(4, number), Random(number)
        prompts: list[int] = []
        for prompt in [draw.randint(2, 24) for _ in range(5)]:
            prompts += [prompt] * draw.randint(1, 4)
        n, unit = len(prompts), draw.choice([1, 3, 4])
        ids = [  # samples of one prompt, and prompts that begin alike
            [7 * min(i, 2) + (i > 2) * prompt for i in range(-(-prompt // unit))]
            for prompt in prompts
        ]
        offsets = np.cumsum([0, *map(len, ids)])
        blocks = PrefixBlocks(unit, offsets, np.array([name for of_one in ids for name in of_one]))
        trace = made(
            sorted(draw.randint(0, 60) / 1000 for _ in range(n)),
            prompts,
            [draw.randint(1, 30) for _ in range(n)],
            blocks,
        )
        seqs, size = draw.randint(3, 6), draw.choice([1, 2, 3, 4])
        pool = replace(one.pool, max_len=54)
        pool = replace(pool, capacity_bytes=draw.randint(56, 90) * pool.token_bytes)
        limits = replace(
            one.limits, max_num_seqs=seqs, max_num_batched_tokens=16 + seqs, max_model_len=54
        )
        spec = f"paging:block_size={size}+prefix:reuse=oldest"
        one = replace(one, trace=trace, policy=spec, pool=pool, limits=limits)
        expected = interpreted(job(one), parse_policy(spec).manager(pool))
        same(run_compiled(job(one), compiled), expected)
        same(run_compiled(job(one), compiled, slots=1 + number % 4), expected)
        preempted = int(expected.requests["preemptions"].sum())
        preemptions += preempted
        swapped += bool(preempted) and limits.pressure.preemption == "swap"
        found += int(expected.requests["cached_tokens"].sum())
    assert preemptions > 40
    assert found > 400
    assert swapped > 2


def test_who_never_comes_is_owed_no_token_of_a_step_in_flight() -> None:
    """The horizon cuts a step planned ahead; rows behind it are loaded into its requests' slots."""
    one = history(5, 70)
    assert one.limits.rules.async_scheduling
    assert one.horizon_s
    expected = interpreted(job(one), parse_policy(one.policy).manager(one.pool))
    same(run_compiled(job(one), compiled=False, slots=2), expected)


def test_a_subclass_is_never_taken_for_its_base() -> None:
    class Other(Pages):
        def can_admit(self, seq: object) -> bool:
            return False

    work = job(history(3, 0))
    other = replace(work, manager=Other(work.manager.pool, 2))
    assert hindrance(other) == "its policy is interpreted"


def test_times_beyond_64_bits_are_interpreted() -> None:
    work = replace(job(history(3, 0)), manager=Pages(history(3, 0).pool, 2), cost=COST)
    assert hindrance(work) is None
    long = replace(work, limits=replace(work.limits, max_num_batched_tokens=2**50))
    assert hindrance(long) == "its steps may last longer than 64 bits of attoseconds"


def test_room_for_every_block_of_a_shared_prefix_is_bounded() -> None:
    pool = Pool(10**9, 256, 100_000)
    work = replace(job(history(3, 0)), manager=parse_policy("paging+prefix").manager(pool))
    work = replace(work, cost=plain_cost("fixed"), limits=Limits(256, 2048, 100_000))
    assert hindrance(work) is None
    many = replace(work, limits=Limits(30_000, 30_000, 100_000))
    assert hindrance(many) == "its sequences may share too many blocks one by one"


def test_a_source_without_a_rule_is_not_lowered() -> None:
    class Strange(Pages):
        def units_for(self, tokens: int) -> int:
            return len([tokens for _ in "ab"])

    with pytest.raises(NotLowered):
        lowered((Strange,))


def test_cost_models_hear_what_machine_code_would_have_said() -> None:
    """Beyond a profile in every way: the same warnings, in the same order; and the same share."""
    prompts = [30_000, *[3] * 300, 20_000, 18_000]
    long = made([0.0, *[0.5] * 300, 1.0, 1.0], prompts, [60] * len(prompts))
    many = made([0.0] * 12, [60] * 12, [5] * 12)
    said = []
    for lowered_too in (False, True):
        model, device = find_model("llama-3.1-8b"), find_device("rtx-4090")
        profile = find_profile("rtx-4090-llama-3.1-8b-tp1")
        kernels = KernelTable(model, device, profile, rules=KernelRules(length_skew=True))
        steps = calibrated.__wrapped__("paging", 256)
        for cost, trace, limits, pool in (
            (kernels, long, Limits(400, 4_000, 40_000), Pool(10**11, 131_072, 40_000)),
            (steps, many, Limits(12, 100, 100), Pool(10**6, 256, 100)),
        ):
            manager = parse_policy("paging").manager(pool)
            work = Job(trace, manager, limits, cost, 1.0, knows_longest=True)
            if lowered_too:
                run_compiled(work, compiled=False)
            else:
                interpreted(work, manager)
        said.append((kernels.warnings, steps.warnings, steps.constants))
    assert said[0] == said[1]
    assert len(said[0][0]) >= 5
    assert said[0][1]
