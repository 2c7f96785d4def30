"""Policies against numbers that were published or follow from a line of arithmetic."""

from dataclasses import dataclass

import pytest

from sim.hardware import find_device
from sim.memory.ledger import kv_budget
from sim.model.layers import LayerGroup
from sim.model.presets import find_model
from sim.policy.counting.address import Buddy, FirstFit
from sim.policy.manager import Manager, Memory, Pool, Stored
from sim.policy.paging import Paging
from sim.policy.registry import parse_policy
from sim.policy.sliding_window import SlidingWindow
from sim.policy.spec import Placement, Retained, Sharing
from sim.policy.storage import Fp8, Int4, Int8
from sim.sequence import Sequence
from workloads.errors import InputError

GIB = 2**30


def pool_of(groups: tuple[LayerGroup, ...], capacity: int, max_len: int, tp: int = 1) -> Pool:
    """A pool of 16-bit KV."""
    stored = tuple(
        Stored(2 * g.heads_per_rank(tp) * g.head_dim, 2 * g.heads_per_rank(tp) * g.v_head_dim)
        for g in groups
    )
    return Pool(capacity, 0, max_len, groups=groups, tp=tp).storing(stored)


LLAMA_8B = (LayerGroup(32, "full", 8, 128, 128),)


def filled(manager: Manager, tokens: int, requests: int = 1) -> Memory:
    """Memory with so many contexts of that length."""
    for index in range(requests):
        seq = Sequence(index, 0, tokens, 1)
        assert manager.can_admit(seq)
        manager.admit(seq)
        manager.extend(seq, tokens)
    return manager.memory()


@pytest.mark.parametrize(
    ("windowed", "window", "tokens", "waste"),
    [(16, 4096, 8192, 0.25), (24, 32_768, 131_072, 0.5625)],
)
def test_unified_pages_waste_what_leaves_the_window(
    windowed: int, window: int, tokens: int, waste: float
) -> None:
    """GOLDEN: 25 % with half the layers windowed, 56.25 % with three quarters; none if capped."""
    groups = (
        LayerGroup(32 - windowed, "full", 8, 128, 128),
        LayerGroup(windowed, "window", 8, 128, 128, window),
    )
    pool = pool_of(groups, 64 * GIB, tokens)
    unified = filled(parse_policy("paging:layers=unified").manager(pool), tokens)
    assert unified.internal / (unified.internal + unified.live) == waste
    reserved = filled(parse_policy("paging").manager(pool), tokens)
    assert (reserved.live, reserved.internal) == (tokens * pool.token_bytes, 0)
    capped = filled(parse_policy("paging:layers=capped").manager(pool), tokens)
    assert (capped.live, capped.internal) == (unified.live, 0)


@pytest.mark.parametrize(
    ("model", "growth", "windows_mib"),
    [("gemma-3-27b", 81_920, 416), ("gpt-oss-120b", 36_864, 4.5), ("gpt-oss-20b", 24_576, 3)],
)
def test_capped_accounting_is_affine(model: str, growth: int, windows_mib: float) -> None:
    """GOLDEN: full layers grow by so much a token; full windows are a constant."""
    found = find_model(model)
    pool = pool_of(found.groups, 64 * GIB, 32_768)
    lengths = (16_384, 32_768)
    live = [filled(parse_policy("paging:layers=capped").manager(pool), n).live for n in lengths]
    assert (live[1] - live[0]) / 16_384 == growth
    assert live[0] - 16_384 * growth == windows_mib * 2**20


def test_hybrid_groups_of_gemma_3() -> None:
    """52 windowed and 10 full layers: pages of 10 layers, 6 tables for windows (8 layers padding).

    vLLM v1/core/kv_cache_utils.py: a group has as many layers as the smallest kind.
    """
    manager = Paging(layers="capped").manager(pool_of(find_model("gemma-3-27b").groups, GIB, 8192))
    assert manager.layers_a_page == 10  # type: ignore[attr-defined]
    assert sorted(kind.tables for kind in manager.kinds) == [1, 6]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("policy", "token_bytes"),
    [
        ("fp8", 65_536),  # half of 131,072
        ("int8", 65_536 + 2 * 32 * 8 * 4),  # a 32-bit scale for each head vector
        ("int4", 32_768 + 2 * 32 * 8 * 4 * (2 + 2)),  # four groups of 32, scale and zero point
        ("int4:group=0,zero=none", 32_768 + 2 * 32 * 8 * 2),
    ],
)
def test_stored_bytes_of_llama_3_8b(policy: str, token_bytes: int) -> None:
    """2 x 32 layers x 8 heads x 128 elements, and scales at their own size."""
    manager = parse_policy(f"paging+{policy}").manager(pool_of(LLAMA_8B, GIB, 8192))
    assert manager.pool.token_bytes == token_bytes
    memory = filled(manager, 160)
    assert memory.live == 160 * (token_bytes - manager.pool.side_bytes)
    assert memory.metadata == 160 * manager.pool.side_bytes
    assert memory.internal == 0


def test_int4_compresses_less_than_four_times() -> None:
    """5 bits an element with 16-bit scale and zero point for 32: 3.2 times."""
    pool = pool_of(LLAMA_8B, GIB, 8192)
    assert pool.token_bytes / Int4().apply(pool).token_bytes == pytest.approx(3.2)
    assert pool.token_bytes / Int8().apply(pool).token_bytes < 2
    assert pool.token_bytes / Fp8().apply(pool).token_bytes == 2


def test_padding_of_an_incomplete_group_is_counted_apart() -> None:
    """80 elements in groups of 32: three groups are stored, 16 elements of 4 bits are padding."""
    assert Int4().format.vector(80) == (40, 6, 6, 8)


def test_a_latent_vector_is_quantised_once_and_not_divided() -> None:
    """DeepSeek-V3: 61 x 576 x 2 = 70,272 B, at any TP; INT8 with a 32-bit scale 61 x 580."""
    groups = find_model("deepseek-v3").groups
    pool = pool_of(groups, GIB, 4096, tp=8)
    assert pool.token_bytes == 70_272
    assert Int8().apply(pool).token_bytes == 61 * (576 + 4)


def test_kv_heads_are_repeated_when_there_are_more_gpus() -> None:
    """8 KV heads on 16 GPUs: each stores one head, so all together store twice the cache."""
    model, device = find_model("llama-3-70b"), find_device("a100-80gb")
    pool = kv_budget(model, device, tp=16).pool(4096)
    assert pool.token_bytes * 16 == 2 * 327_680


def test_buddy_gives_orca_max_its_batch_of_seven() -> None:
    """Kwon et al., SOSP'23: 15,728 slots in buffers of 2,048 are 7 requests, 1,392 slots left."""
    pool = Pool(15_728, 1, 2048)
    for allocator in ("first_fit", "buddy"):
        manager = parse_policy(f"preallocation:allocator={allocator}").manager(pool)
        memory = filled(manager, 10, 7)
        assert not manager.can_admit(Sequence(7, 0, 10, 1))
        assert (memory.external, memory.free) == (15_728 - 7 * 2048, 0)


@pytest.mark.parametrize(("reserve", "held"), [("pow2", 32), ("oracle", 24)])
def test_reservations_of_orca(reserve: str, held: int) -> None:
    """Kwon et al., section 6.1: of an output of 25 tokens, "pow2" reserves 32 positions."""
    manager = parse_policy(f"preallocation:reserve={reserve}").manager(Pool(2048, 1, 2048))
    seq = Sequence(0, 0, 10, 25)
    manager.admit(seq)
    manager.extend(seq, 10)
    memory = manager.memory()
    assert memory.live == 10
    assert memory.reserved == 24  # the last sampled token is never written
    assert memory.reserved + memory.internal == held


def test_external_fragmentation_emerges() -> None:
    """100 slots hold 4 of 25; the second and last leave: 50 are free and 30 don't fit."""
    manager = parse_policy("preallocation:reserve=oracle").manager(Pool(100, 1, 100))
    filled(manager, 25, 4)
    leavers = [Sequence(index, 0, 25, 1) for index in (1, 3)]
    for seq in leavers:
        seq.stored = 25
        manager.release(seq)
    assert manager.memory().free == 50  # two more like the last would fit
    assert not manager.can_admit(Sequence(9, 0, 30, 1))
    assert manager.can_admit(Sequence(9, 0, 25, 1))


def test_allocators_merge_what_is_given_back() -> None:
    for space in (FirstFit(100), Buddy(100)):
        before = space.holes()
        taken = [(space.allocate(units), units) for units in (5, 9, 3, 30)]
        for address, units in taken[::2] + taken[1::2]:
            assert address is not None
            space.release(address, units)
        assert (space.holes(), space.lost) == (before, 0)


def test_growing_shows_old_and_new_and_counts_the_copy() -> None:
    """A full buffer of 4 doubles: 4 + 8 slots in that step, 2 x 4 bytes copied, 8 slots after."""
    manager = parse_policy("growing:start=4").manager(Pool(100, 1, 64))
    seq = Sequence(0, 0, 4, 5)
    manager.admit(seq)
    manager.extend(seq, 4)
    manager.join(seq)
    assert manager.memory()[:3] == (4, 0, 0)
    manager.grow(1)
    assert manager.memory()[:3] == (5, 3, 4)
    assert manager.reads() == (5 + 2 * 4, 1)
    assert manager.repeatable(3) == 0  # the copy is not repeated
    manager.grow(1)
    assert manager.memory()[:3] == (6, 2, 0)
    assert manager.reads() == (6, 1)


def test_virtual_pages_of_llama_3_8b() -> None:
    """64 tensors, 2,048 B a token each: 32 tokens a page, so one token maps 64 pages of 64 KiB."""
    manager = parse_policy("virtual").manager(pool_of(LLAMA_8B, GIB, 8192))
    memory = filled(manager, 1)
    assert memory.live + memory.internal == 64 * 65_536
    assert manager.longest() == GIB // (64 * 65_536) * 32


def test_select_saves_reads_and_evict_saves_memory() -> None:
    """4,096 tokens, k = 256. Landmarks of a page of 16: two key vectors a layer and head."""
    pool = pool_of(LLAMA_8B, 4 * GIB, 8192)
    token, tokens = pool.token_bytes, 4096
    landmark = 32 * 8 * 128 * 2 * 2
    found = {}
    for mode in ("select", "evict"):
        manager = parse_policy(f"paging+top_k:k=256,mode={mode}").manager(pool)
        seq = Sequence(0, 0, tokens, 9)
        manager.admit(seq)
        manager.extend(seq, tokens)
        manager.join(seq)
        found[mode] = (manager.memory().live, manager.memory().metadata, manager.reads()[0])
    assert found["select"] == (
        tokens * token,
        tokens // 16 * landmark,
        256 * token + tokens // 16 * landmark,
    )
    scores = 256 * 32 * 8 * 4
    assert found["evict"] == (256 * token, scores, 256 * token + scores)


def test_a_paged_ring_is_bounded() -> None:
    """Window 100 and 4 sinks in blocks of 16: 7 blocks, however long the context."""
    manager = parse_policy("paging+sliding_window:window=100,sinks=4").manager(Pool(160, 1, 10_000))
    assert manager.longest() == 10_000
    memory = filled(manager, 9000)
    assert (memory.live, memory.internal) == (104, 7 * 16 - 104)


def test_python_and_command_line_compose_alike() -> None:
    composed = Paging(block_size=16) + SlidingWindow(window=64) + Int8(group=32)
    assert composed == parse_policy("paging:block_size=16+sliding_window:window=64+int8:group=32")
    assert parse_policy("paging+int8+sliding_window") == parse_policy("paging+sliding_window+int8")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pagin+int8", "did you mean 'paging'"),
        ("paging+int9", "did you mean 'int8'"),
        ("paging+int8:gruop=4", "did you mean 'group'"),
        ("int8+paging", "expected a placement first"),
        ("paging+chunked", "one placement"),
        ("paging+int8+int4", "both decide storage"),
        ("paging+top_k+sliding_window", "both decide retention"),
        ("virtual:page_kib=4", "expected one of 64"),
        ("growing:start=0", "expected at least 1"),
        ("paging:layers=full", "layers='full'"),
    ],
)
def test_what_does_not_compose_is_refused_in_one_line(spec: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_policy(spec)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "spec",
    [
        "int8",
        "top_k",
        "virtual+top_k",
        "paging:block_size=16+top_k:page=5",
        "paging:layers=capped+sliding_window",
        "paging:layers=unified+top_k",
    ],
)
def test_what_no_pool_can_serve_is_refused_in_one_line(spec: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_policy(spec).manager(pool_of(LLAMA_8B, GIB, 4096))
    assert "\n" not in str(refused.value)


@dataclass(frozen=True)
class Everything(Sharing):
    """A sharing modifier that leaves the placement's own manager as it is."""

    def share(self, placement: Placement, pool: Pool, retained: Retained) -> Manager:
        return placement.place(pool, retained)


def test_sharing_gets_the_placement_and_the_pool_as_stored() -> None:
    """Whichever the order of modifiers, storage and retention are applied before sharing."""
    composed = Paging(16) + Everything() + Int8() + SlidingWindow(window=28, sinks=4)
    manager = composed.manager(pool_of(LLAMA_8B, GIB, 8192))
    assert manager.pool.token_bytes == 65_536 + 2 * 32 * 8 * 4
    assert filled(manager, 100).live == 32 * 65_536


def test_a_composition_says_what_each_part_loses() -> None:
    both = parse_policy("paging+sliding_window:window=64+int4").limitation
    assert both == (
        "forgets tokens between the sinks and the window; rounds keys and values to 4 bits"
    )
    assert parse_policy("paging:block_size=16").limitation is None


def test_a_ring_that_doesnt_fit_its_buffer_never_turns() -> None:
    """Buffers of 8 tokens under a window of 10: no sequence gets long enough to lose a token.

    A window of 8 does fit, and then any length is served. So it is for every allocator.
    """
    pool = pool_of(LLAMA_8B, 100 * 131_072, 50)
    for rest in ("", ",reserve=oracle", ",reserve=oracle,allocator=buddy"):
        placement = f"preallocation:max_len=8{rest}"
        assert parse_policy(placement).manager(pool).longest() == 8
        for window, longest in ((10, 8), (8, 50)):
            spec = f"{placement}+sliding_window:window={window},sinks=0"
            assert parse_policy(spec).manager(pool).longest() == longest
