"""Gaps between tokens, ranked without ever being there all at once: a long run has millions."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import ROWS_AT_ONCE, Log
from sim.run.tables import parts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LIMB_BITS = 21
LIMB = (1 << LIMB_BITS) - 1
LOW_BITS = 42
"""Of a double, left out in the first count: what is left tells a thousandth of a value apart."""
LEAST, BINS = (1023 - 40) << (52 - LOW_BITS), 80 << (52 - LOW_BITS)
"""Between 2**-40 and 2**40 seconds; what lies beyond is counted with the last."""


def token_gaps(log: Log) -> Iterator[tuple[Floats, Ints]]:
    """Inter-token gaps in s and how many tokens had each, some thousand events at a time.

    A decode step ends one gap for each decoding request; the step that completes a preempted
    request's context again ends one that spans the time it was away.
    """
    for decodes, number, first, growth in parts(
        log.steps, "decodes", "steps", "first_step_s", "step_growth_s"
    ):
        decodes = decodes.astype(np.int64)
        steps = np.where(decodes > 0, number.astype(np.int64), 0)
        within = np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)
        yield np.repeat(first, steps) + within * np.repeat(growth, steps), np.repeat(decodes, steps)
    away = log.resume_gaps_s
    yield away, np.ones_like(away, np.int64)


def mean_gap(log: Log, gaps: int) -> float:
    """The mean of so many gaps: their exact sum, rounded once.

    Times are doubles, so whole multiples of powers of two, of which whole numbers are summed.
    """
    sums: defaultdict[int, int] = defaultdict(int)  # by the power of two
    for decodes, number, first, growth in parts(
        log.steps, "decodes", "steps", "first_step_s", "step_growth_s"
    ):
        steps = number.astype(np.int64)
        ended = decodes.astype(np.int64) * steps
        _add(sums, ended, first)
        _add(sums, ended * (steps - 1) // 2, growth)
    for start in range(0, len(log.resume_gaps_s), ROWS_AT_ONCE):
        away = log.resume_gaps_s[start : start + ROWS_AT_ONCE]
        _add(sums, np.ones_like(away, np.int64), away)
    lowest = min(sums, default=0)
    whole = sum(value << power - lowest for power, value in sums.items())
    # A quotient of whole numbers is rounded once, however large they are.
    return (whole << max(0, lowest)) / (gaps << max(0, -lowest))


def _add(sums: defaultdict[int, int], counts: Ints, times: Floats) -> None:
    """So many of each time, both >= 0."""
    fractions, powers = np.frexp(times)
    whole = (fractions * 2.0**53).astype(np.int64)
    for power in np.unique(powers[counts > 0]).tolist():
        there = powers == power
        sums[power - 53] += _exact_dot(counts[there], whole[there])


def _exact_dot(a: Ints, b: Ints) -> int:
    """The sum of products of at most ROWS_AT_ONCE numbers, in limbs, so that none overflows."""
    total = 0
    for i in range(0, 63, LIMB_BITS):
        if (low := a >> i & LIMB).any():
            for j in range(0, 63, LIMB_BITS):
                total += int(low @ (b >> j & LIMB)) << i + j
    return total


def gaps_at(log: Log, lowest: int, counts: Ints, ranks: list[int]) -> dict[int, float]:
    """The gaps of these ranks, from 0, among all in order, with what `gap_counts` says."""
    upto = np.cumsum(counts)
    bins = {rank: lowest + int(np.searchsorted(upto, rank, side="right")) for rank in ranks}
    found: dict[int, list[tuple[Floats, Ints]]] = {each: [] for each in bins.values()}
    for gaps, weights in token_gaps(log):
        high = _high(gaps)
        for each, kept in found.items():
            there = high == each
            kept.append((gaps[there], weights[there]))
    ordered = {}
    for each, kept in found.items():
        values, weights = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        order = np.argsort(values, kind="stable")
        before = int(upto[each - lowest]) - int(counts[each - lowest])
        ordered[each] = values[order], before + np.cumsum(weights[order])
    ranked = {}
    for rank, each in bins.items():
        values, reached = ordered[each]
        ranked[rank] = float(values[np.searchsorted(reached, rank, side="right")])
    return ranked


def gap_counts(log: Log) -> tuple[int, Ints]:
    """How many tokens' gaps share their high bits, by these: from the lowest that is there on."""
    lowest, counts = 0, np.zeros(0, np.int64)
    for gaps, weights in token_gaps(log):
        if not len(gaps):
            continue
        high = _high(gaps)
        first, last = int(high.min()), int(high.max())
        if not len(counts):
            lowest = first
        lower, higher = max(0, lowest - first), max(0, last + 1 - lowest - len(counts))
        if lower or higher:
            ends = np.zeros(lower, np.int64), np.zeros(higher, np.int64)
            lowest, counts = lowest - lower, np.concatenate((ends[0], counts, ends[1]))
        part = np.bincount(high - first, weights)  # doubles, which hold such counts exactly
        counts[first - lowest : last + 1 - lowest] += part.astype(np.int64)
    return lowest, counts


def _high(gaps: Floats) -> Ints:
    """Doubles from 0 on are ordered as their bits are."""
    bits = np.ascontiguousarray(gaps).view(np.int64) >> LOW_BITS
    return np.clip(bits - LEAST, 0, BINS - 1)
