"""A run as the list of its plans and how long each took: what lockstep replays."""

from collections.abc import Iterable, Iterator
from json import dumps
from pathlib import Path
from typing import NamedTuple

from sim.engine.loop import Effects
from sim.plan import Execute, StepPlan


class Logged(NamedTuple):
    """A plan that was carried out `steps` times; repetition j took `first_as + j * growth_as`."""

    plan: StepPlan
    steps: int
    first_as: int
    growth_as: int


def logged(effects: Effects, log: list[Logged]) -> Effects:
    """The same effects; every plan carried out is appended to the log."""
    effect = next(effects, None)
    while effect is not None:
        done = yield effect
        if isinstance(effect, Execute):
            log.append(Logged(effect.plan, done.steps, done.first_as, done.growth_as))
        try:
            effect = effects.send(done)
        except StopIteration:
            return


def single(plan: StepPlan) -> StepPlan:
    """The plan's first repetition alone: what holds for later ones is blanked."""
    return plan._replace(max_steps=1, read_growth_bytes=0)


def expand(log: Iterable[Logged]) -> Iterator[Logged]:
    """Every step as a plan of its own, as single stepping would have made it."""
    for plan, steps, first, growth in log:
        yield Logged(single(plan), 1, first, 0)
        for j in range(1, steps):
            later = StepPlan(
                step=plan.step + j,
                max_steps=1,
                decodes=plan.decodes,
                context_tokens=plan.context_tokens + j * plan.decodes,
                read_bytes=plan.read_bytes + j * plan.read_growth_bytes,
                read_growth_bytes=0,
                prefill_tokens=0,
                chunks=(),
                admitted=(),
                preempted=(),
                finished=(),
                longest_context=plan.longest_context and plan.longest_context + j,  # 0: not kept
            )
            yield Logged(later, 1, first + j * growth, 0)


def write_log(log: Iterable[Logged], file: Path) -> None:
    """JSON lines, one for each plan carried out: the fields of `Logged` and of its `StepPlan`.

    Chunks are lists in the order of `Chunk`'s fields; times are in attoseconds.
    """
    lines = [dumps({**one._asdict(), "plan": one.plan._asdict()}) for one in log]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
