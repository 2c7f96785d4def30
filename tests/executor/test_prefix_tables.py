"""The engine's prefix rule in the executor's tables: the same blocks found, kept and forgotten.

Random histories of equal beginnings under memory that doesn't suffice. A plan doesn't tell what was
forgotten when a decode found no block (vLLM lets the decodes before it take all that had contents),
nor in which order blocks were let go; a table that guessed would find other copies later.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from executor.cache.choice import table_for
from executor.cache.shared import Shared
from executor.cache.table import Table
from executor.device.base import NullDevice
from executor.driver import free_run
from executor.work import Work
from sim.cost.roofline import FixedStep
from sim.engine.limits import Limits, Pressure, Rules
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.plan import StepPlan
from sim.policy.counting.prefix_cache import PrefixCache
from sim.policy.manager import Manager
from sim.policy.shared_pages import SharedPages
from sim.run.simulation import Setup, prepare
from tests.executor.test_layer_windows import MODEL as WINDOWED
from tests.executor.test_layer_windows import TOKEN as WINDOWED_TOKEN
from tests.executor.test_layer_windows import beside
from tests.executor.test_policies_agree import setup
from tests.executor.test_swap import TOKEN, same, spoken
from workloads.schema import PrefixBlocks, Provenance, Trace


def history(random: Random) -> Trace:
    """Conversations whose turns repeat what was said, in published blocks of 4 tokens."""
    count = random.randint(4, 14)
    prompts, names, fresh = [], [], iter(range(1, 10**6))
    earlier: list[list[int]] = []
    for _ in range(count):
        before = random.choice(earlier) if earlier and random.random() < 0.7 else []
        same = before[: random.randint(0, len(before))] if random.random() < 0.3 else before
        blocks = [*same, *(next(fresh) for _ in range(random.randint(0, 6)))] or [next(fresh)]
        blocks = blocks[:14]
        earlier.append(blocks)
        names.append(blocks)
        prompts.append(4 * len(blocks) - random.randint(0, 3))
    offsets = np.cumsum([0, *map(len, names)])
    prefix = PrefixBlocks(4, offsets, np.array([name for blocks in names for name in blocks]))
    arrivals = np.cumsum([random.choice([0.0, 0.01, 0.1]) for _ in range(count)])
    outputs = np.array([random.randint(1, 30) for _ in range(count)])
    return Trace("made up", arrivals, np.array(prompts), outputs, Provenance("test", 0), prefix)


def limits(random: Random) -> Limits:
    threshold = random.choice([0, 0, 8])
    return Limits(
        max_num_seqs=random.randint(1, 5),
        max_num_batched_tokens=random.choice([16, 32, 64]),
        max_model_len=96,
        batching="continuous" if threshold else random.choice(["continuous", "static"]),
        pressure=random.choice([Pressure(), Pressure("swap", 1 << 30), Pressure(victim="longest")]),
        rules=Rules(
            reserve_whole_prompt=random.random() < 0.5,
            preempted_first=random.random() < 0.5,
            admit_after_preemption=random.random() < 0.5,
        ),
        long_prefill_token_threshold=threshold,
    )


def contents(cache: PrefixCache) -> Any:
    """All that decides what is found next, and what goes next."""
    runs = {
        key: [(one.start, one.end, one.refs) for one in pieces]
        for key, pieces in cache._runs.items()
    }
    return runs, [(one.key, one.start, one.end) for one in cache._idle]


class Followed(NullDevice):
    """Compares after every step."""

    def __init__(self, table: Table, manager: Manager) -> None:
        super().__init__(FixedStep(0.01, "test"))
        self.table, self.manager = table, manager
        self.preempted = 0

    def run(self, plan: StepPlan, work: Work) -> int:
        self.table.follow(work)
        self.table.check(self.manager)
        if isinstance(self.table, Shared):
            assert isinstance(self.manager, SharedPages)
            assert contents(self.table.cache) == contents(self.manager.cache)
        self.preempted += len(plan.preempted)
        return super().run(plan, work)


def followed(given: Setup) -> Iterator[int]:
    """Requests preempted, and tokens that were found."""
    manager = given.policy.manager(given.pool)
    table = table_for(manager, given.policy)
    device = Followed(table, manager)
    scheduler, recorder = Scheduler(manager, given.limits), Recorder(given.trace, 1.0)
    free_run(serve(given.trace, scheduler, recorder), scheduler, device)
    yield device.preempted
    yield int(recorder.log().requests["cached_tokens"].sum())


def test_tables_keep_what_the_manager_keeps() -> None:
    preempted = found = 0
    for seed in range(150):
        random = Random(seed)
        block = random.choice([1, 2, 4, 8])
        given = setup(f"paging:block_size={block}+prefix", trace=history(random))
        pool = replace(given.pool, capacity_bytes=random.randint(60, 120) * TOKEN)
        given = replace(given, pool=pool, limits=limits(random))
        went, cached = followed(given)
        preempted, found = preempted + went, found + cached
    assert preempted > 100
    assert found > 1000


def capped(trace: Trace, tokens: int, block: int = 8) -> Setup:
    return prepare(
        trace,
        model=WINDOWED,
        gpu="h100",
        policy=f"paging:block_size={block},layers=capped+prefix",
        max_num_seqs=4,
        max_num_batched_tokens=32,
        kv_cache_memory=tokens * WINDOWED_TOKEN,
    )


def test_groups_of_layers_keep_what_the_manager_keeps() -> None:
    preempted = found = 0
    for seed in range(60):
        random = Random(seed)
        given = capped(history(random), random.randint(70, 110), random.choice([2, 4, 8]))
        went, cached = followed(given)
        preempted, found = preempted + went, found + cached
    assert preempted > 20
    assert found > 500


@pytest.mark.parametrize(
    "policy",
    [
        "paging:block_size=4,layers=capped",
        "paging:block_size=1,layers=capped",
        "paging:block_size=8,layers=unified",
        "paging:block_size=4+top_k:k=21,mode=evict",
        "growing:start=8+top_k:k=21,mode=evict",
        "virtual",
    ],
)
def test_other_tables_hold_what_is_counted(policy: str) -> None:
    """The same histories without prefixes, under every engine's rules: bytes after every step."""
    preempted = 0
    for seed in range(40):
        random = Random(seed)
        trace = replace(history(random), prefix=None)
        given = prepare(trace, model=WINDOWED, gpu="h100", policy=policy, kv_cache_memory=2**21)
        tokens = random.randint(70, 110) * WINDOWED_TOKEN
        # Of 64 KiB pages each of ten tensors takes one, however short the context is.
        size = 65_536 * 10 * random.randint(1, 3) if policy == "virtual" else tokens
        pool = replace(given.pool, capacity_bytes=size, max_len=96)
        given = replace(given, pool=pool, limits=limits(random))
        if given.limits.batching == "static":
            pool = replace(pool, in_flight_tokens=0)
        else:
            pool = replace(pool, in_flight_tokens=given.limits.max_num_batched_tokens)
        preempted += next(followed(replace(given, pool=pool)))
    assert preempted > 20 or policy == "virtual"


@pytest.mark.parametrize("seed", range(3))
def test_what_was_found_says_the_same(seed: int) -> None:
    """Every token's logits are those of a run that shares nothing."""
    trace = history(Random(100 + seed))
    apart = spoken(setup("paging:block_size=4", trace=trace))
    shared = spoken(setup("paging:block_size=4+prefix", memory=100 * TOKEN, trace=trace))
    assert sum(shared.prefilled.values()) < sum(apart.prefilled.values())
    same(apart, shared, 1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_windows_behind_what_was_found_are_whole(seed: int) -> None:
    """As above, of layers with windows; and sharing nothing they agree with plain attention."""
    trace = history(Random(200 + seed))
    given = capped(trace, 110)
    alone = spoken(replace(given, policy=capped_alone(trace).policy))
    shared = spoken(given)
    assert sum(shared.prefilled.values()) < sum(alone.prefilled.values())
    same(alone, shared, 1e-4)
    assert beside(capped_alone(trace)).worst <= 1e-4


@pytest.mark.parametrize(("seed", "tokens", "block"), [(302, 80, 4), (307, 75, 2), (302, 75, 2)])
def test_windows_come_back_from_the_host(seed: int, tokens: int, block: int) -> None:
    """As above, behind hits that are shorter than what the host keeps; bytes moved are planned."""
    trace = history(Random(seed))
    given = capped(trace, tokens, block)
    limits = replace(given.limits, pressure=Pressure("swap", 1 << 30))
    alone = spoken(capped_alone(trace))
    swapped = spoken(replace(given, limits=limits))
    assert swapped.in_bytes > 0
    same(alone, swapped, 1e-4)


@pytest.mark.parametrize("seed", [302, 307])
def test_windows_are_whole_where_prompts_are_computed_whole(seed: int) -> None:
    """As above with static batching, preempted and swapped too."""
    trace = history(Random(seed))
    given = capped(trace, 100, 4)
    limits = replace(given.limits, batching="static", pressure=Pressure("swap", 1 << 30))
    given = replace(given, limits=limits, pool=replace(given.pool, in_flight_tokens=0))
    alone, shared = spoken(capped_alone(trace)), spoken(given)
    assert sum(shared.prefilled.values()) < sum(alone.prefilled.values())
    same(alone, shared, 1e-4)


def capped_alone(trace: Trace) -> Setup:
    return prepare(
        trace,
        model=WINDOWED,
        gpu="h100",
        policy="paging:block_size=8,layers=capped",
        max_num_seqs=4,
        max_num_batched_tokens=32,
        kv_cache_memory=2**21,
    )
