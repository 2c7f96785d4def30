"""Ids behind counts: which pages a request gets, in which order."""

from executor.cache.contiguous import Contiguous
from executor.cache.paged import Paged
from executor.cache.ring import Ring
from executor.work import Decode, Work
from sim.plan import Chunk


def test_pages_are_reused_last_in_first_out() -> None:
    """Pages of 4: two requests take 0-2 and 3-4; who comes after the first gets 0 before 1."""
    table = Paged(8, 4)
    table.follow(Work((), (Chunk(0, 0, 9, True), Chunk(1, 0, 5, True)), ()))
    assert table.owned.lists() == {0: [0, 1, 2], 1: [3, 4]}
    table.follow(Work((0,), (Chunk(2, 0, 5, True),), (Decode(1, 6),)))
    assert table.owned.lists() == {1: [3, 4], 2: [0, 1]}
    table.follow(Work((1, 2), (Chunk(3, 0, 12, True),), ()))
    # freed last: 0 and 1 of the request named last, then 3 of the other
    assert table.owned.lists() == {3: [0, 1, 3]}


def test_a_context_longer_than_a_slab_fits_nowhere() -> None:
    """Two slabs of 100 tokens; of a ring of 100, any length keeps no more."""
    table = Contiguous(2, 100)
    assert table.fits([100, 100])
    assert not table.fits([101])
    assert not table.fits([1, 1, 1])
    assert Contiguous(2, 100, Ring(100, 0)).fits([4000])
