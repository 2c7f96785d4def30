"""Requests that share a block let go of it in one step, as their windows leave it together."""

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
