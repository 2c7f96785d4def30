"""Prefix caching: published hit ratios, and what vLLM V1 does, on the smallest cases."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from sim.policy.counting.prefix_cache import PrefixCache
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.policy.shared_pages import SharedPages, chain
from sim.sequence import Sequence
from workloads import read_trace
from workloads.prefix import unique_blocks

# Hit ratio by block of the Mooncake traces (FAST'25): requests in file order, leading run of
# blocks present before insertion, partial last block counted, LRU, tail evicted before head.
CONVERSATION = {
    None: 0.3664,
    "1%": 0.0525, "5%": 0.1958, "10%": 0.2789, "25%": 0.3535, "50%": 0.3631,
    1000: 0.0445, 5859: 0.1361, 10_000: 0.2116, 30_000: 0.3257,
}  # fmt: skip
SYNTHETIC = {
    None: 0.6396,
    "1%": 0.0381, "5%": 0.1566, "10%": 0.2623, "25%": 0.4441, "50%": 0.5888,
    1000: 0.0841, 5859: 0.3094, 10_000: 0.4239, 30_000: 0.6242,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "unique", "total", "published"),
    [
        ("mooncake-conversation", 182_790, 288_500, CONVERSATION),
        ("mooncake-synthetic", 43_924, 121_877, SYNTHETIC),
    ],
)
def test_hit_ratios_of_the_mooncake_traces(
    name: str, unique: int, total: int, published: dict[str | int | None, float]
) -> None:
    prefix = read_trace(name).prefix
    assert prefix is not None
    assert unique_blocks(prefix) == unique
    assert len(prefix.ids) == total
    ids = prefix.ids.tolist()
    requests = [[(one, 1) for one in ids[a:b]] for a, b in pairwise(prefix.offsets.tolist())]
    for size, ratio in published.items():
        capacity = unique * int(size[:-1]) // 100 if isinstance(size, str) else size or unique
        assert replay(requests, capacity) / total == pytest.approx(ratio, abs=5e-4), size


def replay(requests: list[list[tuple[int, int]]], capacity: int) -> int:
    """Blocks found, one request after another, in a cache of so many blocks."""
    cache = PrefixCache()
    hits = 0
    for names in requests:
        hold = cache.pin([*names, (-1, 1)], cache.match(names, len(names)))
        hits += hold.inside
        over = len(names) - hold.inside - (capacity - cache.pinned_blocks - cache.idle_blocks)
        if over > 0:
            cache.evict(over)
        cache.publish(hold, len(names))
        cache.unpin(hold)
    cache.check_integrity()
    assert cache.idle_blocks <= capacity
    return hits


@pytest.mark.parametrize(
    ("block_size", "runs"),
    [
        (4, [(2, 2), (4, 2), (7, None)]),  # 4 divides 8: two blocks an id; 18 tokens fill four
        (8, [(2, 1), (4, 1), (7, None)]),
        (3, [(2, 2), (4, 3), (6, 1), (7, None)]),  # the block of tokens 6 to 8 ends in the second
        (5, [(2, 1), (4, 2), (7, None)]),
        (16, [(4, 1), (7, None)]),  # a block of two ids is named by the later
        (32, [(7, None)]),
    ],
)
def test_blocks_are_named_by_the_id_of_their_last_token(
    block_size: int, runs: list[tuple[int, int | None]]
) -> None:
    """18 tokens published as blocks of 8 with ids 1, 2, 3, of request 3."""
    seq = Sequence(3, 0, prompt=18, output=4, prefix=(8, [1, 2, 3]))
    names = chain(seq, block_size)
    assert [(name, count) for name, count in names[:-1]] == runs[:-1]
    assert names[-1][0] == 7


def pages(blocks: int, block_size: int = 4) -> SharedPages:
    policy = parse_policy(f"paging:block_size={block_size}+prefix")
    manager = policy.manager(Pool(blocks * block_size, 1, 4096))
    assert isinstance(manager, SharedPages)
    return manager


def place(manager: SharedPages, seq: Sequence) -> int:
    """Admit and prefill; the tokens found."""
    assert manager.can_admit(seq)
    manager.admit(seq)
    found = seq.stored
    manager.extend(seq, seq.target - found)
    manager.check_integrity()
    return found


def request(index: int, prompt: int, *ids: int, output: int = 2) -> Sequence:
    return Sequence(index, 0, prompt, output, (4, list(ids)))


def test_equal_prompts_share_all_full_blocks_but_the_last_token_is_computed() -> None:
    manager = pages(8)
    assert place(manager, request(0, 12, 1, 2, 3)) == 0
    assert place(manager, request(1, 12, 1, 2, 3)) == 8  # the third block again, as its own
    assert manager.free == 4
    assert manager.memory().live == 16
    assert place(manager, request(2, 14, 1, 2, 3, 4)) == 12
    assert manager.memory().internal == 2


def test_blocks_without_holders_stay_until_needed_and_the_tail_goes_first() -> None:
    manager = pages(4)
    first = request(0, 12, 1, 2, 3)
    place(manager, first)
    manager.release(first)
    assert manager.memory().free == 16
    assert manager.cached_bytes() == 12
    second = request(1, 8, 7, 8)  # takes the empty block and the oldest one's tail, id 3
    place(manager, second)
    assert manager.cached_bytes() == 8
    assert place(manager, request(2, 8, 1, 2)) == 4


@pytest.mark.parametrize(("reuse", "kept"), [("blank", 12), ("oldest", 8)])
def test_which_free_block_is_used_first(reuse: str, kept: int) -> None:
    """Three full blocks are let go and then one that isn't full. The next request takes a block:
    the one without contents (vLLM 0.32), or the oldest, the first holder's tail (vLLM 0.19)."""
    manager = parse_policy(f"paging:block_size=4+prefix:reuse={reuse}").manager(Pool(16, 1, 4096))
    assert isinstance(manager, SharedPages)
    full, partial = request(0, 12, 1, 2, 3), request(1, 2, 7)
    for seq in (full, partial):
        place(manager, seq)
    manager.release(full)
    manager.release(partial)
    manager.check_integrity()
    place(manager, request(2, 2, 8))
    assert manager.cached_bytes() == kept


class SingleBlock:
    """What it holds, if that has a name, and how many hold it."""

    def __init__(self) -> None:
        self.name: int | None = None
        self.refs = 0


def test_oldest_first_is_one_queue_of_blocks() -> None:
    """Beside single blocks, as vLLM 0.19 has them: who lets go puts its blocks at the end of one
    queue, tail first; who takes some takes the first; who finds some takes them out. Of copies the
    one named first is found."""
    random = Random(5)
    size, total = 4, 24
    manager = parse_policy(f"paging:block_size={size}+prefix:reuse=oldest").manager(
        Pool(total * size, 1, 4096)
    )
    assert isinstance(manager, SharedPages)
    queue = [SingleBlock() for _ in range(total)]
    named: dict[int, list[SingleBlock]] = {}
    inside: dict[int, tuple[Sequence, list[SingleBlock]]] = {}
    found_some = 0
    for index in range(600):
        if inside and random.random() < 0.5:
            seq, blocks = inside.pop(random.choice(list(inside)))
            manager.release(seq)
            for block in reversed(blocks):
                block.refs -= 1
                if not block.refs:
                    queue.append(block)
            manager.check_integrity()
            continue
        prompt, family = random.randrange(1, 40), 100 * random.randrange(6)
        names = [family + i for i in range(prompt // size)]
        ids = names if prompt % size == 0 else [*names, 1000 + index]
        seq = Sequence(index, 0, prompt, 2, (size, ids))
        if not manager.can_admit(seq):
            continue
        blocks = []
        while len(blocks) < (prompt - 1) // size and named.get(names[len(blocks)]):
            blocks.append(named[names[len(blocks)]][0])
        found_some += bool(blocks)
        assert place(manager, seq) == size * len(blocks)
        for block in blocks:
            if not block.refs:
                queue.remove(block)
        fresh = -(-prompt // size) - len(blocks)
        for block in queue[:fresh]:
            if block.name is not None:
                named[block.name].remove(block)
                block.name = None
            blocks.append(block)
        del queue[:fresh]
        for block, name in zip(blocks, names, strict=False):
            block.refs += 1
            if block.name is None:
                block.name = name
                named.setdefault(name, []).append(block)
        if len(blocks) > len(names):
            blocks[-1].refs += 1
        inside[index] = seq, blocks
    assert found_some > 50


def test_a_lone_request_that_fits_is_admitted_whatever_is_cached() -> None:
    """All four blocks are found, the last must be computed: its cached copy makes room."""
    manager = pages(4)
    first = request(0, 16, 1, 2, 3, 4)
    place(manager, first)
    manager.release(first)
    assert place(manager, request(1, 16, 1, 2, 3, 4)) == 12
    assert manager.free == 0


def test_a_preempted_request_finds_its_own_blocks_generated_tokens_too() -> None:
    manager = pages(8)
    seq = Sequence(0, 0, prompt=6, output=9)
    place(manager, seq)
    manager.join(seq)
    manager.grow(5)  # 11 tokens: two full blocks
    manager.release(seq)
    assert seq.stored == 11
    seq.target, seq.stored = 12, 0
    assert place(manager, seq) == 8


def test_block_of_a_shorter_prompt_is_not_full_and_not_shared() -> None:
    manager = pages(8)
    place(manager, request(0, 6, 1, 2))
    assert place(manager, request(1, 7, 1, 2)) == 4


def test_ids_without_sharing_change_nothing_in_time_or_memory() -> None:
    from sim.run.simulation import simulate
    from workloads.synthetic import generate

    trace = generate(60, 4.0, prompt="uniform:low=10,high=900", output="uniform:low=1,high=300")
    results = [
        simulate(
            trace, model="llama-2-7b", gpu="a100-40gb", policy=policy,
            kv_cache_memory=16 << 30,
        )
        for policy in ("paging:block_size=16", "paging:block_size=16+prefix")
    ]  # fmt: skip
    plain, shared = results
    assert plain["num_preemptions"] == 0
    for name in ("finish_s", "first_token_s"):
        np.testing.assert_array_equal(plain.requests[name], shared.requests[name])
    assert shared["prefix_hit_tokens"] == 0


@pytest.mark.parametrize("prompt", [15, 16, 17, 40])
@pytest.mark.parametrize("samples", [2, 5])
def test_samples_hold_what_copy_on_write_would(prompt: int, samples: int) -> None:
    """PagedAttention (SOSP'23, 4.4) shares a prompt's blocks and copies the last, partial one when
    each sample writes into it: from the first token on, full blocks once and the rest per sample.
    """
    size, decoded = 4, 7
    manager = pages(1000, size)
    group = [Sequence(i, 0, prompt, 30, (prompt, [1])) for i in range(samples)]
    for seq in group:
        place(manager, seq)
    for seq in group:
        manager.join(seq)
    manager.grow(decoded)
    manager.check_integrity()
    full, length = prompt // size, prompt + decoded
    # The last token of a prompt is computed by each, so where it ends a block that isn't shared.
    shared = full if prompt % size else full - 1
    assert manager.blocks - manager.free == shared + samples * (-(-length // size) - shared)
    assert manager.memory().live == samples * length - (samples - 1) * shared * size
