"""Ids behind counts: which pages a request gets, in which order."""

from executor.cache.choice import table_for
from executor.cache.contiguous import Contiguous
from executor.cache.paged import Paged
from executor.cache.ring import Ring
from executor.cache.stretches import Stretches
from executor.device.assemble import Executor, random_llama
from executor.device.machine import open_machine
from executor.validation.calibrate import decode_work, section_works
from executor.work import Decode, Work
from sim.plan import Chunk
from tests.executor.test_policies_agree import MODEL, setup

TOKEN_BYTES = 2 * 2 * 2 * 16 * 4  # K and V of two layers and two heads, 16 float32 each


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


def test_stretches_seat_whoever_fits() -> None:
    """Seven, seven and six tokens are twenty slots; who comes after all have left begins anew."""
    table = Stretches(20)
    assert table.fits([7, 7, 6])
    assert not table.fits([7, 7, 7])
    work = Work((), (Chunk(0, 3, 4, True),), (Decode(1, 7), Decode(2, 6)))
    for _ in range(2):  # a step that is repeated finds its place again
        table.follow(work)
        found = [table.slots(request, 0, n).tolist() for request, n in ((1, 7), (2, 6), (0, 7))]
        assert found == [list(range(7)), list(range(7, 13)), list(range(13, 20))]
        assert table.held_bytes(10) == 200
    table.follow(Work((0, 1, 2), (Chunk(3, 0, 20, True),), ()))
    assert table.slots(3, 0, 20).tolist() == list(range(20))


def test_buffers_are_timed_with_as_many_as_they_seat() -> None:
    """200 slots and contexts of up to 128: one slab of the longest, but two contexts of 100 or four
    of 50; and behind a chunk of 16, 112 that still make 128."""
    given = setup("growing:start=8", 200 * TOKEN_BYTES)
    table = table_for(given.manager(), given.policy).synthetic()
    works = [work[:3] for work in section_works(given, table, (1, 2, 4))]
    decodes = [(batch, context) for kind, batch, context in works if kind == "decode"]
    assert decodes == [(1, 2), (1, 128), (2, 2), (2, 100), (4, 2), (4, 50)]
    assert [past for kind, tokens, past in works if (kind, tokens) == ("prefill", 16)] == [0, 112]
    machine = open_machine("cpu")
    llama = random_llama(MODEL, machine)
    executor = Executor(given, machine, llama)
    logits = executor.bench().step(decode_work(4, 50))[0]
    assert logits.shape == (4, MODEL.vocab_size)
    assert logits.isfinite().all()
