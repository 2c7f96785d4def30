"""Rules of admission, order and preemption, each on the smallest trace that shows it."""

import pytest

from sim.engine.limits import Limits
from sim.engine.scheduler import Scheduler
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.sequence import Sequence
from workloads.errors import InputError


def engine(policy: str, slots: int, **limits: int) -> Scheduler:
    bounds = Limits(**{"max_num_seqs": 8, "max_num_batched_tokens": 64, **limits})
    return Scheduler(parse_policy(policy).manager(Pool(slots, 1, bounds.max_model_len)), bounds)


def arrive(scheduler: Scheduler, *lengths: tuple[int, int]) -> None:
    for index, (prompt, output) in enumerate(lengths):
        scheduler.waiting.append(Sequence(index, 0, prompt, output))


def test_a_prompt_that_does_not_fit_whole_is_not_begun() -> None:
    scheduler = engine("paging:block_size=1", 100)
    arrive(scheduler, (60, 2), (50, 2))
    plan = scheduler.schedule()
    assert plan is not None
    assert plan.admitted == (0,)
    assert [(c.request, c.tokens) for c in plan.chunks] == [(0, 60)]


def test_what_is_left_of_the_budget_goes_to_the_next_prompt() -> None:
    scheduler = engine("paging:block_size=1", 200)
    arrive(scheduler, (60, 2), (50, 2))
    plan = scheduler.schedule()
    assert plan is not None
    assert [tuple(c) for c in plan.chunks] == [(0, 0, 60, True), (1, 0, 4, False)]
    scheduler.advance(1)
    scheduler.complete(plan)
    plan = scheduler.schedule()
    assert plan is not None
    assert plan.decodes == 1
    assert [tuple(c) for c in plan.chunks] == [(1, 4, 46, True)]


def test_the_last_admitted_is_preempted_and_computes_its_context_again() -> None:
    """Two prompts of 8 in 18 slots: both can write one token, then the younger gives way."""
    scheduler = engine("paging:block_size=1", 18)
    arrive(scheduler, (8, 6), (8, 6))
    plan = scheduler.schedule()
    assert plan is not None
    scheduler.advance(1)
    scheduler.complete(plan)  # both sampled their first token
    plan = scheduler.schedule()
    assert plan is not None
    assert (plan.decodes, plan.max_steps) == (2, 1)
    scheduler.advance(1)
    scheduler.complete(plan)
    plan = scheduler.schedule()
    assert plan is not None
    assert plan.preempted == (1,)
    assert plan.admitted == ()  # not in the step that preempted
    victim = scheduler.waiting[0]
    assert (victim.recomputed, victim.generated, victim.target) == (9, 2, 10)


def test_static_batching_answers_when_the_whole_batch_is_done() -> None:
    scheduler = engine("preallocation:max_len=16", 64, batching="static", max_model_len=16)
    arrive(scheduler, (4, 1), (4, 3), (4, 2), (4, 1), (4, 1))
    left: list[list[int]] = []
    while (plan := scheduler.schedule()) is not None:
        scheduler.advance(1)
        _, finished = scheduler.complete(plan)
        left.append([seq.index for seq in finished])
    assert left == [[], [], [0, 3, 2, 1], [4]]


def test_preallocation_seats_are_the_budget_over_the_reservation() -> None:
    """OPT-13B with 15,728 slots and 2,048 reserved: 7 (Kwon et al., SOSP'23, fig. 13)."""
    pool = Pool(15_728 * 819_200, 819_200, 2048)
    manager = parse_policy("preallocation").manager(pool)
    scheduler = Scheduler(manager, Limits(max_model_len=2048))
    arrive(scheduler, *[(161, 338)] * 40)
    peak = 0
    while (plan := scheduler.schedule()) is not None:
        peak = max(peak, len(scheduler.running))
        scheduler.advance(plan.max_steps)
        scheduler.complete(plan)
    assert peak == 7


def test_the_users_two_requests_in_a_reservation_of_8192() -> None:
    """2,000 and 8,000 tokens: 16,384 slots held, 10,000 of them used at the end."""
    manager = parse_policy("preallocation").manager(Pool(20_000, 1, 8192))
    for index, tokens in enumerate((2000, 8000)):
        seq = Sequence(index, 0, tokens, 1)
        assert manager.can_admit(seq)
        manager.admit(seq)
        manager.extend(seq, tokens)
    memory = manager.memory()
    assert memory.live == 10_000
    assert memory.live + memory.reserved + memory.internal == 16_384


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs=0"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens=0"),
        ({"max_num_batched_tokens": 4, "max_num_seqs": 8}, "max_num_batched_tokens=4"),
        ({"max_model_len": 1}, "max_model_len=1"),
    ],
)
def test_limits_that_cannot_work_are_named(limits: dict[str, int], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Limits(**limits)
