"""The seam: what the scheduler decided for one step, in integers, and the effects that carry it.

A driver of either kind (SimPy predicting time, a device measuring it) receives the same plans.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

AS_PER_S = 10**18
"""The clock counts integer attoseconds (suffix `_as`): sums of step times are exact in any order,
so many steps taken as one event end at the very instant that single steps would reach. That fine,
because a byte read at 5 TB/s takes 200,000 of them: rounding a rate costs nothing that shows."""


T = TypeVar("T", bound=tuple[Any, ...])


def from_fields(kind: type[T]) -> Callable[[tuple[Any, ...]], T]:
    """A named tuple's constructor from all its fields in order: half the time of a call with them.

    For what is made once an event; nothing is checked, and defaults don't apply.
    """
    return partial(tuple.__new__, kind)


class Chunk(NamedTuple):
    """A piece of one prompt (or of a context being recomputed) to prefill in this step."""

    request: int
    start: int  # tokens of this request whose KV is already there
    tokens: int
    last: bool  # the context is complete after it, so a token is sampled


class StepPlan(NamedTuple):
    """One step of the engine, valid for `max_steps` repetitions of its decode part.

    Repeating it means: every decoding request again writes one token and reads its longer context,
    nothing is admitted, finished or preempted in between. A plan with chunks is valid once.
    """

    step: int  # number of the (first) step
    max_steps: int
    decodes: int  # requests that write one token each
    context_tokens: int  # keys those see in the first step, the new ones included
    read_bytes: int  # KV bytes their attention reads in the first step
    read_growth_bytes: int  # and how much more in each following step
    prefill_tokens: int  # of all chunks
    chunks: tuple[Chunk, ...]
    admitted: tuple[int, ...]
    preempted: tuple[int, ...]
    finished: tuple[int, ...]  # requests released since the plan before
    swap_out_bytes: int = 0  # KV to move to the host before the step, per GPU
    swap_in_bytes: int = 0  # and back from it
    longest_context: int = 0  # of the decoding ones, if asked for; a token more in each step


class Execute(NamedTuple):
    """Effect: run the plan; stop early after the first step that ends at or after `until_as`."""

    plan: StepPlan
    until_as: int


class Sleep(NamedTuple):
    """Effect: nothing to do before `until_as`."""

    until_as: int


class Done(NamedTuple):
    """A driver's answer: the clock, the steps it ran, and how long they took.

    Step j of them (from 0) took `first_as + j * growth_as`.
    """

    now_as: int
    steps: int = 0
    first_as: int = 0
    growth_as: int = 0
