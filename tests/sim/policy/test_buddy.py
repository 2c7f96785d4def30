"""The buddy allocator: the paper's arena, splitting and merging, laws on generated histories."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.policy.buddy import Buddy


def test_seven_buffers_of_the_papers_maximum() -> None:
    """Kwon et al., SOSP'23: 12 GiB hold 15,728 slots of OPT-13B, which are 7 times 2,048 whole."""
    arena = Buddy(15_728)
    addresses = []
    while arena.fits(2048):
        addresses.append(arena.take(2048))
    # 15,728 = 8,192 + 4,096 + 2,048 + 1,392: the smallest block that fits goes first.
    assert addresses == [12288, 8192, 10240, 0, 2048, 4096, 6144]
    assert arena.free == 1392
    assert arena.usable(1024) == 1024
    assert arena.usable(1025) == 0


def test_halves_merge_when_both_are_free() -> None:
    arena = Buddy(8)
    first, second = arena.take(3), arena.take(1)
    assert (first, second) == (0, 4)
    assert not arena.fits(5)
    arena.give(first)
    assert not arena.fits(5)  # 4 + 2 + 1 are free, in three pieces
    assert arena.free == 7
    arena.give(second)
    assert arena.take(8) == 0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(slots=st.integers(1, 300), calls=st.lists(st.tuples(st.booleans(), st.integers(1, 64))))
def test_laws_hold_after_every_call(slots: int, calls: list[tuple[bool, int]]) -> None:
    arena = Buddy(slots)
    held: list[tuple[int, int]] = []
    for take, number in calls:
        if take and arena.fits(number):
            assert number <= arena.usable(number) <= arena.free
            held.append((arena.take(number), number))
        elif take:
            assert arena.usable(number) == 0
        elif held:
            arena.give(held.pop(number % len(held))[0])
        arena.check_integrity()
        spans = sorted(held)
        for (address, size), (following, _) in pairwise(spans):
            assert address + size <= following
    for address, _ in held:
        arena.give(address)
    arena.check_integrity()
    assert arena.free == slots
    assert arena.fits(arena.largest())
