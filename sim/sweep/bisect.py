"""The highest of many rungs that hold, with as few looks as it takes.

Whether a rung holds is taken to be monotone: with common random numbers a higher rate is the same
arrivals closer together. What isn't looked at is inferred from that.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple


def highest(
    holds: Callable[[int], bool], first: int, last: int | None, ceiling: int | None = None
) -> int:
    """The highest rung of first..last that holds; first - 1 where the first doesn't.

    Without a last rung it is bracketed first, by doubling strides, up to a ceiling if there is one.
    """
    if any(end is not None and first > end for end in (last, ceiling)):
        return first - 1
    if not holds(first):
        return first - 1
    good, stride = first, 1
    bad = None if last is None else last + 1
    while bad is None:
        if good == ceiling:
            return good
        rung = good + stride if ceiling is None else min(good + stride, ceiling)
        if holds(rung):
            good, stride = rung, 2 * stride
        else:
            bad = rung
    return _between(holds, good, bad)


def lowered(holds: Callable[[int], bool], first: int, top: int) -> int:
    """The highest rung of first..top that holds, first - 1 for none, where that is near the top or
    rungs far below are dear: bracketed from the top down by doubling strides."""
    bad, rung, stride = top + 1, top, 1
    while not holds(rung):
        if rung == first:
            return first - 1
        bad, rung, stride = rung, max(first, rung - stride), 2 * stride
    good = rung
    return _between(holds, good, bad)


def _between(holds: Callable[[int], bool], good: int, bad: int) -> int:
    """The highest rung that holds, of one that does and one above that doesn't."""
    while bad - good > 1:
        middle = (good + bad) // 2
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


class Ladder(NamedTuple):
    """Rungs from what holds most easily on; higher ones are worth more."""

    name: int  # of the configuration
    last: int | None
    first_worth_more: Callable[[float], int]
    """The lowest rung that is worth more than so much."""
    worth: Callable[[int], float]


class Top(NamedTuple):
    """A configuration's highest rung that holds."""

    name: int
    rung: int
    worth: float


def best_two(
    ladders: Sequence[Ladder], climb: Callable[[int, int, int | None], int]
) -> tuple[Top | None, Top | None]:
    """The best configuration and the runner-up; of equal ones those that come first.

    `climb(name, first, last)` is the highest rung that holds, or first - 1. A ladder is climbed
    only from its lowest rung that would beat the runner-up so far.
    """
    best: list[Top] = []
    for ladder in ladders:
        first = 0 if len(best) < 2 else ladder.first_worth_more(best[1].worth)
        if ladder.last is not None and first > ladder.last:
            continue
        rung = climb(ladder.name, first, ladder.last)
        if rung >= first:
            best.append(Top(ladder.name, rung, ladder.worth(rung)))
            best = sorted(best, key=lambda top: -top.worth)[:2]  # stable: first come, first named
    one, two = [*best, None, None][:2]
    return one, two
