"""Requests that share a block let go of it in one step, as their windows leave it together."""

from sim.policy.laws import MIXED, pool
from sim.policy.registry import parse_policy
from sim.sequence import Sequence
from tests.conformance import kvtwin_side
from tests.conformance.case import Case, Request


def test_a_block_that_two_windows_leave_is_free_for_the_second() -> None:
    """What vLLM 0.32 does at the fifth step: all five decode, 3 blocks are left (found by
    `python -m tests.conformance gemma-3 -n 2000 --seed 1`, case 1001862, shrunk).
    """
    case = Case(
        seed=1001862, blocks=60, block_size=64, max_model_len=285, max_num_seqs=8,
        max_num_batched_tokens=256, prefix=True, unit=128, windows=(64, None), layers=(52, 10),
        requests=(
            Request(1, 128, 5), Request(4, 128, 2, 0, 128), Request(4, 128, 2, 0, 128),
            Request(4, 1, 2), Request(4, 20, 25, 2, 128),
        ),
    )  # fmt: skip
    step = kvtwin_side.run(case)[4]
    assert step.tokens == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}
    assert (step.preempted, step.free, step.evicted) == ([], 3, 3)


def test_a_prompt_computed_whole_holds_what_it_reads() -> None:
    """One full layer and two with windows of 5, blocks of 2 tokens, no known size of chunks.

    Of 40 tokens 20 are found. The first one computed, 20, reads from 16 on: each windowed layer
    holds blocks 8 to 19, and the full one 20. At the next step, which computes token 40, windows
    begin at 36: blocks 18 to 20, and 21 of the full layer.
    """
    manager = parse_policy("paging:block_size=2,layers=capped+prefix").manager(pool(96, 64, MIXED))
    pieces = manager.pieces()
    assert pieces is not None
    empty = manager.memory().free
    earlier = Sequence(0, 0, 20, 1, (2, list(range(10))))
    manager.admit(earlier)
    manager.extend(earlier, 20)
    manager.release(earlier)
    seq = Sequence(1, 0, 40, 9, (2, list(range(20))))
    assert manager.can_admit(seq)
    assert manager.can_begin(seq, 40)
    manager.admit(seq)
    assert seq.stored == 20
    manager.extend(seq, 20)
    assert empty - manager.memory().free == (20 + 2 * 12) * pieces[1]
    manager.join(seq)
    assert manager.growable(1)
    manager.grow(1)
    assert empty - manager.memory().free == (21 + 2 * 3) * pieces[1]
