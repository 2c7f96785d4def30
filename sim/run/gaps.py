"""Gaps between tokens, ranked without ever being there all at once: a long run has millions."""

from collections.abc import Iterator
from itertools import chain
from math import fsum

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import Log
from sim.run.tables import parts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
    """The mean of so many gaps: the sum of each event's own sum, correctly rounded."""
    sums = chain.from_iterable(map(np.ndarray.tolist, _sums(log)))
    return fsum([fsum(sums), fsum(log.resume_gaps_s.tolist())]) / gaps


def _sums(log: Log) -> Iterator[Floats]:
    """Of all gaps that each event ended."""
    for decodes, steps, first, growth in parts(
        log.steps, "decodes", "steps", "first_step_s", "step_growth_s"
    ):
        times = steps * first + steps * (steps - 1) / 2 * growth
        yield np.where(decodes > 0, decodes * times, 0.0)


def gaps_at(log: Log, counts: Ints, ranks: list[int]) -> dict[int, float]:
    """The gaps of these ranks, from 0, among all in order; `counts` are those of `gap_counts`."""
    upto = np.cumsum(counts)
    bins = {rank: int(np.searchsorted(upto, rank, side="right")) for rank in ranks}
    wanted = np.array(sorted(set(bins.values())))
    found: dict[int, list[tuple[Floats, Ints]]] = {each: [] for each in wanted.tolist()}
    for gaps, weights in token_gaps(log):
        high = _high(gaps)
        there = np.isin(high, wanted)
        high, gaps, weights = high[there], gaps[there], weights[there]
        for each, kept in found.items():
            kept.append((gaps[high == each], weights[high == each]))
    ranked = {}
    for rank, each in bins.items():
        values, weights = (np.concatenate(parts) for parts in zip(*found[each], strict=True))
        order = np.argsort(values, kind="stable")
        before = int(upto[each]) - int(counts[each])
        place = np.searchsorted(np.cumsum(weights[order]), rank - before, side="right")
        ranked[rank] = float(values[order][place])
    return ranked


def gap_counts(log: Log) -> Ints:
    """How many tokens' gaps share their high bits, by these; none where there is no gap."""
    counts = np.zeros(BINS, np.int64)
    for gaps, weights in token_gaps(log):
        part = np.bincount(_high(gaps), weights)  # doubles, which hold such counts exactly
        counts[: len(part)] += part.astype(np.int64)
    return counts


def _high(gaps: Floats) -> Ints:
    """Doubles from 0 on are ordered as their bits are."""
    bits = np.ascontiguousarray(gaps).view(np.int64) >> LOW_BITS
    return np.clip(bits - LEAST, 0, BINS - 1)
