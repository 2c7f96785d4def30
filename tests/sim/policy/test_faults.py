"""Faults that sizing and simulating of KV caches keep making, a test for each class."""

import pytest

from sim.engine.limits import Limits
from sim.engine.scheduler import Scheduler
from sim.model.layers import LayerGroup
from sim.model.presets import find_model
from sim.policy.manager import Manager, Pool, Stored
from sim.policy.registry import parse_policy
from sim.sequence import Sequence

GROUPS = (LayerGroup(2, "full", 2, 64, 64),)
TOKEN = 2 * 2 * 2 * 64 * 2
POOL = Pool(100 * TOKEN, TOKEN, 80, 0, GROUPS, (Stored(256, 256),))
EVERY = (
    "preallocation:max_len=20",
    "preallocation:reserve=pow2,allocator=buddy",
    "preallocation:reserve=oracle",
    "growing:start=8",
    "chunked:chunk_tokens=16",
    "paging:block_size=4",
    "paging:block_size=4+sliding_window:window=12,sinks=2",
    "paging:block_size=4+top_k:k=8,page=4",
    "paging:block_size=4+top_k:k=8,mode=evict",
    "paging:block_size=4+int4",
    "paging:block_size=4,layers=capped",
)
every_policy = pytest.mark.parametrize("spec", EVERY)


def manager(spec: str) -> Manager:
    return parse_policy(spec).manager(POOL)


def fill(spec: str, tokens: int) -> tuple[Manager, int]:
    """Equal contexts until one is refused, and how many there are."""
    found, count = manager(spec), 0
    while found.can_admit(seq := Sequence(count, 0, tokens, 1)):
        found.admit(seq)
        found.extend(seq, tokens)
        count += 1
    return found, count


def test_fault_1_head_dim_is_read_and_never_derived() -> None:
    """Qwen3-4B: hidden / heads would be 80, head_dim is 128. Pools take it from the layers."""
    model = find_model("qwen3-4b")
    assert model.hidden_size // model.num_heads == 80
    assert {group.head_dim for group in model.groups} == {128}


def test_fault_1_shared_layers_store_nothing() -> None:
    groups = (*GROUPS, LayerGroup(9, "shared", 2, 64, 64))
    pool = Pool(0, 0, 80, groups=groups).storing((Stored(256, 256), Stored(0, 0)))
    assert parse_policy("paging+int8").manager(
        Pool(10**6, TOKEN, 80, 0, groups, pool.stored)
    ).pool.token_bytes == 2 * 2 * 2 * (64 + 4)


@every_policy
def test_fault_2_what_is_admitted_is_allocated(spec: str) -> None:
    """Up to the very last one, at a length that no unit divides."""
    found, count = fill(spec, 7)
    assert count >= 1
    found.check_integrity()


def test_fault_2_blocks_are_rounded_up() -> None:
    """25 blocks of 4: 12 contexts of 5 tokens take two each, though 100 / 5 is 20."""
    assert fill("paging:block_size=4", 5)[1] == 12


@every_policy
def test_fault_3_what_can_never_fit_is_refused_and_the_rest_runs(spec: str) -> None:
    scheduler = Scheduler(manager(spec), Limits(4, 16, 80))
    assert scheduler.servable(80, 1) == 0
    assert 0 < scheduler.servable(2, 500) <= 78
    longest = scheduler.longest_total
    assert manager(spec).can_admit(Sequence(0, 0, longest - 1, 1))


@every_policy
def test_fault_4_a_refused_question_leaves_no_trace(spec: str) -> None:
    found, count = fill(spec, 9)
    before = found.memory()
    assert not found.can_admit(Sequence(count, 0, 9, 1))
    assert found.memory() == before
    assert sum(before) == POOL.capacity_bytes


def test_fault_5_a_watermark_holds_back_admission_alone() -> None:
    """Half of 25 blocks are kept back, but not from the first request, and not from growth."""
    found = manager("paging:block_size=4,watermark=0.5")
    first = Sequence(0, 0, 80, 20)
    assert found.can_admit(first)
    found.admit(first)
    found.extend(first, 80)
    assert not found.can_admit(Sequence(1, 0, 4, 1))
    found.join(first)
    assert found.growable(19) == 19


@every_policy
def test_fault_6_memory_over_rate_is_tokens(spec: str) -> None:
    """Payload divides by a token's payload, and side data by its side data."""
    found, count = fill(spec, 7)  # shorter than any window here
    memory, pool = found.memory(), found.pool
    assert found.live_tokens() == count * 7
    assert memory.live == found.live_tokens() * pool.payload_bytes


@pytest.mark.parametrize(("spec", "most"), [("int8", 2.0), ("int4", 4.0)])
def test_fault_7_side_data_is_counted(spec: str, most: float) -> None:
    """INT8 is not half and INT4 not a quarter."""
    found, _ = fill(f"paging:block_size=4+{spec}", 8)
    assert found.memory().metadata > 0
    assert TOKEN / found.pool.token_bytes < most


def test_fault_7_selection_saves_no_memory() -> None:
    assert fill("paging:block_size=4+top_k:k=8,page=4", 20)[1] <= fill("paging:block_size=4", 20)[1]


@every_policy
def test_fault_8_the_last_sampled_token_is_never_written(spec: str) -> None:
    """8 prompt + 5 output tokens use 12 slots."""
    found, seq = manager(spec), Sequence(0, 0, 8, 5)
    found.admit(seq)
    found.extend(seq, 8)
    found.join(seq)
    for _ in range(4):
        assert found.growable(1)
        found.grow(1)
    found.release(seq)
    assert seq.stored == 12 == seq.final


def test_fault_9_contiguous_policies_show_holes() -> None:
    """Four of 25 slots; when the first and third leave, 50 free slots don't hold 30."""
    found = manager("preallocation:reserve=oracle")
    for index in range(4):
        found.admit(seq := Sequence(index, 0, 25, 1))
        found.extend(seq, 25)
    for index in (0, 2):
        leaver = Sequence(index, 0, 25, 1)
        leaver.stored = 25
        found.release(leaver)
    assert found.memory().free == 50 * TOKEN
    assert not found.can_admit(Sequence(9, 0, 30, 1))


def test_fault_9_growing_needs_old_and_new_at_once() -> None:
    """Two buffers of 32 in 100 slots: a copy to 64 lacks room, though 64 - 32 would be there."""
    found = parse_policy("growing:start=32").manager(POOL)
    for index in range(2):
        found.admit(seq := Sequence(index, 0, 32, 9))
        found.extend(seq, 32)
    found.join(seq)
    assert found.memory().free + found.memory().external == 36 * TOKEN
    assert found.growable(1) == 0
