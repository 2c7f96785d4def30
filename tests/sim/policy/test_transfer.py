"""What moves where a sequence is swapped out: what it holds, neither tokens that are gone nor all
that it has reserved."""

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
