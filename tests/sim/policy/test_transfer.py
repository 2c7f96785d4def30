"""What moves where a sequence is swapped out: what it holds, neither tokens that are gone nor all
that it has reserved."""

from dataclasses import replace

import pytest

from sim.model.layers import LayerGroup
from sim.policy.laws import FULL, MIXED, pool
from sim.policy.registry import parse_policy
from sim.sequence import Sequence


def held(spec: str, tokens: int, groups: tuple[LayerGroup, ...]) -> tuple[int, int]:
    """Bytes that would move for a sequence of so many tokens, and those in use while it is alone.

    It is prefilled but for its last two tokens, which it decodes.
    """
    manager = parse_policy(spec).manager(pool(96, 64, groups))
    seq = Sequence(0, 0, prompt=tokens - 2, output=9)
    assert manager.can_admit(seq)
    manager.admit(seq)
    manager.extend(seq, tokens - 2)
    seq.generated = 1
    manager.join(seq)
    for _ in range(2):
        assert manager.growable(1)
        manager.grow(1)
    manager.rest(seq)
    memory = manager.memory()
    assert seq.stored == tokens
    return manager.transfer_bytes(
        tokens
    ), manager.pool.capacity_bytes - memory.free - memory.external


@pytest.mark.parametrize(
    ("spec", "slots"),
    [
        ("preallocation", 40),
        ("sliding_window:window=8,sinks=2", 10),  # the ring is full
        ("preallocation:reserve=oracle+sliding_window:window=6,sinks=1", 7),
        ("preallocation:max_len=48+top_k:k=6,page=4", 40),  # keeps what it doesn't read
        ("paging:block_size=16", 48),  # blocks move whole
        ("paging:block_size=4+sliding_window:window=6,sinks=1", 8),
        ("growing:start=4+sliding_window:window=8,sinks=1", 9),
    ],
)
def test_a_sequence_of_forty_tokens(spec: str, slots: int) -> None:
    moved, used = held(spec, 40, FULL)
    token = pool(1, 1).token_bytes
    assert moved == slots * token
    assert moved <= used


def test_layers_that_forget() -> None:
    """One full layer and two with windows of 5, blocks of 2 tokens, one layer a page.

    After 40 tokens the full layer has 20 blocks. The next token's window begins at position 36, so
    each other layer keeps the blocks of 36 to 39: 2. The step that wrote token 39 still held one
    block more of each.
    """
    moved, used = held("paging:block_size=2,layers=capped", 40, MIXED)
    layer_token = pool(1, 1).token_bytes // 2
    assert moved == (20 + 2 * 2) * 2 * layer_token
    assert used - moved == 2 * 2 * layer_token


SHARED = "paging:block_size=2,layers=capped+prefix"


def test_windows_behind_a_short_hit_lack_all_their_blocks() -> None:
    """The same model. The host keeps 40 tokens, of which the cache still has 20: 10 blocks of the
    full layer, and of each other one those of the window that ends at token 19.

    The full layer lacks 10 blocks; each other layer the two of 36 to 39, of which none was found.
    With 38 found it lacks one block, as the others do: that of 38 and 39.
    """
    manager = parse_policy(SHARED).manager(pool(96, 64, MIXED))
    pieces = manager.pieces()
    assert pieces is not None
    page = pieces[1]
    assert manager.missing_bytes(40, 0) == manager.transfer_bytes(40) == (20 + 2 * 2) * page
    assert manager.missing_bytes(40, 20) == (10 + 2 * 2) * page
    assert manager.missing_bytes(40, 38) == (1 + 2) * page


@pytest.mark.parametrize("in_flight", [0, 64])
def test_what_never_came_back_is_not_found(in_flight: int) -> None:
    """40 tokens come back from the host: 20 blocks of the full layer, two of each other one.

    The others' blocks of 0 to 35 were not moved, so they are neither taken nor known by name: a
    prompt of the first 30 tokens finds nothing that all layers have.
    """
    given = replace(pool(96, 64, MIXED), in_flight_tokens=in_flight)
    manager = parse_policy(SHARED).manager(given)
    seq = Sequence(0, 0, 40, 9, (2, list(range(20))))
    seq.target, seq.swapped = 41, 40
    manager.admit(seq)
    before = manager.memory().free
    manager.extend(seq, 40)
    pieces = manager.pieces()
    assert pieces is not None
    assert before - manager.memory().free == (20 + 2 * 2) * pieces[1]
    assert manager.found(Sequence(1, 0, 30, 9, (2, list(range(15))))) == 0
