"""What others' policies and cost models return, checked where it comes in: one line for each fault.

Cheap: one short history, before anything runs. `sim.policy.laws.check_policy` tries thousands.
"""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from sim.cost.base import Constant, StepCost
from sim.plan import Chunk, StepPlan
from sim.policy.answers import (
    Untrue,
    checked_tally,
    expect_count,
    expect_yes_or_no,
    fresh,
    of_the_house,
    ours,
)
from sim.policy.manager import Manager, Pool
from sim.policy.spec import Policy, parts_of, spec_name
from sim.sequence import Sequence
from workloads.errors import InputError

if TYPE_CHECKING:
    from sim.run.costs import CostSpec
    from sim.run.simulation import Setup

HOUSE = Path(__file__).parents[1]


@contextmanager
def told_by(policy: Policy, label: str) -> Iterator[None]:
    """Whatever a stranger's policy raises is one InputError: its name, the reason, and where.

    A fault of our own, under policies that are built in, is raised as it is.
    """
    with _told(f"--policy {label}", *parts_of(policy)):
        yield


@contextmanager
def _told(whose: str, *parts: object) -> Iterator[None]:
    """What strangers among the parts raise is one line; what they print leaves stdout alone."""
    if all(map(of_the_house, parts)):
        yield
        return
    try:
        with redirect_stdout(sys.stderr):
            yield
    except Untrue as error:
        raise InputError(f"{whose}: {error}") from error
    except (InputError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        origin = error.__cause__ or error  # SimPy raises another of its kind
        frames = traceback.extract_tb(origin.__traceback__)
        theirs = [frame for frame in frames if not Path(frame.filename).is_relative_to(HOUSE)]
        last = [*frames, *theirs][-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        text = " ".join(str(error).split())
        reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise InputError(f"{whose}: {reason} ({where})") from error


def manager_of(policy: Policy, pool: Pool, label: str) -> Manager:
    """A fresh manager, watched where the policy is a stranger's.

    Raises InputError where the policy makes none that has a longest request.
    """
    with told_by(policy, label):
        return fresh(policy, pool)


def try_out(policy: Policy, pool: Pool, label: str) -> None:
    """`check_manager` of a stranger's policy before it runs."""
    if not ours(policy):
        check_manager(policy, pool, label)


def check_manager(policy: Policy, pool: Pool, label: str) -> None:
    """One request of two tokens comes, is prefilled, grows by one and leaves.

    Raises InputError for an answer that can't be true.
    """
    with told_by(policy, label):
        manager = fresh(policy, pool)
        expect_count("longest()", manager.longest(), least=1)
        checked_tally(manager)
        seq = Sequence(0, 0, prompt=min(2, manager.longest()), output=2)
        if seq.prompt + 1 > manager.longest():
            return
        expect_yes_or_no("can_admit()", fits := manager.can_admit(seq))
        if not fits:
            return
        manager.admit(seq)
        if seq.stored < seq.target:
            manager.extend(seq, seq.target - seq.stored)
        _check_counts(manager, "extend", (seq.prompt, 0, 0))
        manager.join(seq)
        _check_counts(manager, "join", (0, seq.prompt, 1))
        expect_count("growable(1)", steps := manager.growable(1), most=1)
        if steps:
            manager.grow(1)
            _check_counts(manager, "grow", (0, seq.prompt + 1, 1))
        manager.release(seq)
        _check_counts(manager, "release", (0, 0, 0))


def _check_counts(manager: Manager, command: str, expected: tuple[int, int, int]) -> None:
    """After a command, by a manager's own counts of tokens and of those that decode."""
    counts = (manager.prefilled, manager.context, manager.decoding)
    if counts != expected:
        raise Untrue(
            f"after {command}() prefilled, context, decoding are {counts}; expected {expected} "
            f"(is super().{command}() missing?)"
        )
    checked_tally(manager)


class Guarded:
    """A cost model whose every answer is checked: InputError in one line where it can't be true."""

    def __init__(self, cost: StepCost) -> None:
        self.whose = f"cost model {getattr(cost, 'name', type(cost).__name__)}"
        self._cost = cost
        with _told(self.whose, cost):
            self.name: str = cost.name
            self.constants: tuple[Constant, ...] = cost.constants

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `StepCost`."""
        with _told(self.whose, self._cost):
            return self._cost.warnings

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        with _told(self.whose, self._cost):
            answer = self._cost.linear(plan)
        whole = isinstance(answer, tuple) and [type(part) for part in answer] == [int] * 3
        if not whole or answer[0] < 1 or not 1 <= answer[2] <= plan.max_steps:
            raise InputError(
                f"{self.whose}: linear() is {answer!r}; expected whole attoseconds above 0, "
                f"their growth, and 1 to {plan.max_steps} repetitions"
            )
        return answer


def own_cost(spec: "CostSpec", setup: "Setup") -> StepCost:
    """The cost model that such options make; a stranger's is guarded while it is used."""
    with _told(f"--cost {spec_name(type(spec))}", spec):
        cost = spec.model(setup)
    if not callable(getattr(cost, "linear", None)):
        raise InputError(
            f"--cost {spec_name(type(spec))}: model() is {cost!r}; expected a StepCost "
            "(docs/adding-a-cost-model.md)"
        )
    return cost if of_the_house(cost) else Guarded(cost)


def check_cost(cost: StepCost, token_bytes: int) -> None:
    """A prefill and some decodes: whole times above 0, and repetitions that cost what was said.

    Raises InputError for an answer that can't be true.
    """
    chunk = StepPlan(0, 1, 0, 0, 0, 0, 8, (Chunk(0, 0, 8, True),), (0,), (), ())
    size = 2 * token_bytes
    decodes = [
        StepPlan(step, 4 - step, 2, 40 + 2 * step, (20 + step) * size, size, 0, (), (), (), ())
        for step in range(4)
    ]
    plans = [chunk, *(plan._replace(longest_context=20 + plan.step) for plan in decodes)]
    answers = [Guarded(cost).linear(plan) for plan in plans]
    for (first, growth, valid), (later, _, _) in pairwise(answers[1:]):
        if valid > 1 and later != first + growth:
            raise InputError(
                f"cost model {cost.name}: a step said to take {first + growth} as takes {later}; "
                "expected that a repetition costs what its own plan does"
            )
