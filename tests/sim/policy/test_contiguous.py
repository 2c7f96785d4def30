"""The Orca variants: what each reserves, worked out by hand."""

import pytest

from sim.policy.base import Pool
from sim.policy.contiguous import Reserve
from sim.policy.registry import parse_policy
from sim.sequence import Sequence


@pytest.mark.parametrize(
    ("reserve", "slots", "block"), [("max", 64, 64), ("pow2", 42, 64), ("oracle", 34, 64)]
)
def test_what_a_request_of_10_and_25_holds(reserve: Reserve, slots: int, block: int) -> None:
    """The paper's own example: an output of 25 reserves 32 positions under Pow2.

    The last sampled token is never written, so 34 slots will be used; the allocator gives 64.
    """
    manager = parse_policy(f"contiguous:reserve={reserve}").manager(Pool(1280, 10, 64))
    seq = Sequence(0, 0, prompt=10, output=25)
    assert manager.can_admit(seq)
    manager.admit(seq)
    manager.extend(seq, 10)
    memory = manager.memory()
    assert memory.live == 100
    assert memory.reserved == 240
    assert memory.internal == (slots - 34) * 10
    # 64 of 128 slots are left, where a second such request fits; rounding is external.
    assert memory.external == (block - slots) * 10
    assert memory.free == 640
    manager.check_integrity()


def test_holes_too_small_for_the_request_refused_last_are_external() -> None:
    manager = parse_policy("contiguous:reserve=oracle").manager(Pool(1280, 10, 128))
    small = Sequence(0, 0, prompt=8, output=25)  # 32 slots
    manager.admit(small)
    assert manager.memory().free == 960
    assert not manager.can_admit(Sequence(1, 0, prompt=60, output=10))  # 69 slots: a block of 128
    assert manager.memory().external == 960
    manager.release(small)
    assert manager.memory().free == 1280


def test_rounding_never_turns_a_request_away() -> None:
    """20 + 33 tokens fit 64 slots, though 20 + 64 wouldn't."""
    manager = parse_policy("contiguous:reserve=pow2").manager(Pool(640, 10, 64))
    assert manager.can_admit(Sequence(0, 0, prompt=20, output=33))
