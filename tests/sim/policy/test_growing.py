"""Growing buffers by hand: what a copy costs and when, and what is promised of admission.

64 bytes a token and no step longer than 8 tokens, unless a test says otherwise.
"""

from sys import maxsize

import numpy as np
import pytest

from sim.engine.ahead import serve_ahead
from sim.engine.limits import Limits, Rules
from sim.engine.loop import serve
from sim.engine.record import Log, Recorder
from sim.engine.scheduler import Scheduler
from sim.model.layers import LayerGroup
from sim.plan import AS_PER_S, StepPlan
from sim.policy.counting.calendar import Calendar
from sim.policy.manager import Manager, Pool, Stored
from sim.policy.registry import parse_policy
from sim.run.driver import run_simulated
from sim.sequence import Sequence
from workloads.schema import Provenance, Trace

TOKEN = 64
GROUPS, STORED = (LayerGroup(1, "full", 1, 16, 16),), (Stored(32, 32),)


class Millisecond:
    """Every step takes one."""

    name = "a millisecond"
    constants = warnings = ()

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        return AS_PER_S // 1000, 0, plan.max_steps


def pool(tokens: int, max_len: int = 100) -> Pool:
    return Pool(tokens * TOKEN, TOKEN, max_len, 0, GROUPS, STORED)


def served(
    policy: str, rows: list[tuple[float, int, int]], tokens: int, rules: Rules | None = None
) -> tuple[Log, Scheduler]:
    """`rows`: arrival, prompt, output."""
    arrivals, prompts, outputs = zip(*rows, strict=True)
    trace = Trace(
        "by hand",
        np.array(arrivals, dtype=np.float64),
        np.array(prompts, dtype=np.int64),
        np.array(outputs, dtype=np.int64),
        Provenance("by hand", len(rows)),
    )
    limits = Limits(4, 8, 100, rules=rules or Rules())
    scheduler = Scheduler(parse_policy(policy).manager(pool(tokens)), limits)
    recorder = Recorder(trace, 1.0)
    loop = serve_ahead if limits.rules.async_scheduling else serve
    run_simulated(loop(trace, scheduler, recorder), Millisecond())
    return recorder.log(), scheduler


@pytest.mark.parametrize("ahead", [False, True])
def test_a_copy_is_charged_in_its_own_step_alone(ahead: bool) -> None:
    """Twice a prompt of 4 fills a buffer of 4, and its second token's step copies it into one of 8.

    That step reads 5 tokens of attention, and moves 4 out of the old buffer and into the new: 13.
    The prefill after an idle time has nothing to read: the copy was charged.
    """
    rows = [(0.0, 4, 2), (10.0, 4, 2)]
    log, _ = served("growing:start=4", rows, 100, Rules(async_scheduling=ahead))
    assert log.steps["prefill_tokens"].tolist() == [4, 0, 4, 0]
    assert log.steps["read_bytes"].tolist() == [0, 13 * TOKEN, 0, 13 * TOKEN]


@pytest.mark.parametrize("retention", ["", "+sliding_window:window=100,sinks=0"])
def test_copies_are_charged_with_and_without_a_retention(retention: str) -> None:
    """A prompt of 3 and 7 tokens: attention of 4 to 9 tokens, copies of 4 (at 5) and 8 (at 9).

    A window as long as the longest context keeps and reads everything, so nothing changes.
    """
    log, scheduler = served(f"growing:start=4{retention}", [(0.0, 3, 7)], 100)
    reads = np.repeat(log.steps["read_bytes"], log.steps["steps"])
    within = np.arange(len(reads)) - np.repeat(log.steps["step"], log.steps["steps"])
    assert (reads // TOKEN + within).tolist() == [0, 4, 5 + 2 * 4, 6, 7, 8, 9 + 2 * 8]
    assert scheduler.manager.copied_bytes == 2 * (4 + 8) * TOKEN  # type: ignore[attr-defined]


def test_landmarks_are_copied_with_their_tokens() -> None:
    """Pages of 4 tokens with a landmark: 2 vectors of 16 elements of 2 bytes, 64 B beside 256.

    The step that writes token 5 reads 3 chosen tokens and 16 B of landmarks for each of 5 tokens;
    a copy reads and writes the old buffer's 4 tokens and its one landmark.
    """
    log, _ = served("growing:start=4+top_k:k=3,page=4", [(0.0, 4, 2)], 100)
    attention, copy = 3 * TOKEN + 5 * 16, 2 * (4 * TOKEN + 64)
    assert log.steps["read_bytes"].tolist() == [0, attention + copy]


def test_what_rests_has_no_copy_under_way() -> None:
    """The old buffer is there in the step that copies; then the sequence rests, and it is gone."""
    manager = parse_policy("growing:start=4").manager(pool(100))
    seq = Sequence(0, 0, 4, 2)
    manager.admit(seq)
    manager.extend(seq, 4)
    manager.join(seq)
    manager.grow(1)
    assert manager.reads()[0] == 13 * TOKEN
    assert manager.memory().internal == (4 + 3) * TOKEN  # the old one, and what won't be used
    manager.rest(seq)
    manager.check_integrity()
    assert manager.reads() == (0, 0)
    assert manager.memory().internal == 3 * TOKEN


def test_what_is_asked_is_what_is_admitted() -> None:
    """A prompt of 20 where 24 slots are free: its first chunk of 8 would fit, its buffer doesn't.

    The buffer is for the whole prompt, so it waits for the first request to leave, even where an
    engine would begin what fits as far as its first chunk.
    """
    rows = [(0.0, 8, 6), (0.001, 20, 1)]
    log, _ = served("growing:start=16", rows, 40, Rules(reserve_whole_prompt=False))
    assert log.requests["generated_tokens"].tolist() == [6, 1]
    assert log.requests["first_scheduled_s"][1] >= log.requests["finish_s"][0]


def test_blocks_may_be_begun_with_their_first_chunk() -> None:
    """The same under paging, which takes blocks as they are filled: it begins at once."""
    rows = [(0.0, 8, 6), (0.001, 20, 1)]
    log, _ = served("paging:block_size=8", rows, 28, Rules(reserve_whole_prompt=False))
    assert log.requests["first_scheduled_s"][1] < log.requests["finish_s"][0]


def used(manager: Manager) -> tuple[int, ...]:
    return manager.memory()


@pytest.mark.parametrize(
    "policy", ["growing:start=3,allocator=buddy", "preallocation:reserve=oracle,allocator=buddy"]
)
def test_an_empty_pool_is_like_a_new_one(policy: str) -> None:
    """100 units are powers of 64, 32 and 4: while a buffer of 8 is the last, 4 are of no use."""
    manager = parse_policy(policy).manager(pool(100))
    new = used(manager)
    seq = Sequence(0, 0, 8, 1)
    manager.admit(seq)
    assert manager.memory().external >= 4 * TOKEN
    manager.release(seq)
    assert used(manager) == new
    assert new[3] == 0


def test_a_calendar_by_hand() -> None:
    """Two are due at 5; the one at 3 is forgotten, so 5 is next, in the order of the trace."""
    calendar = Calendar()
    first, second, third = (Sequence(i, 0, 1, 1) for i in range(3))
    for seq, tick in ((third, 5), (second, 3), (first, 5)):
        calendar.expect(seq, tick)
    assert (calendar.next(), calendar.at(3), calendar.at(4)) == (3, [second], [])
    calendar.forget(second)
    calendar.forget(second)  # who isn't expected is forgotten already
    assert (calendar.next(), calendar.at(5)) == (5, [first, third])
    calendar.forget(first)
    calendar.expect(first, 9)
    calendar.forget(third)
    assert (calendar.next(), calendar.at(9)) == (9, [first])
    calendar.forget(first)
    assert calendar.next() == maxsize
