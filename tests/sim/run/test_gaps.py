"""The mean of gaps between tokens against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from sim.engine.record import Log
from sim.run import tables
from sim.run.gaps import mean_gap


def log_of(decodes: list[int], steps: list[int], rng: np.random.Generator) -> Log:
    events = len(steps)
    columns = {
        "decodes": np.array(decodes, np.int64),
        "steps": np.array(steps, np.int64),
        "first_step_s": rng.random(events) * 10.0 ** rng.integers(-6, 3, events),
        "step_growth_s": rng.random(events) * 1e-7 * rng.integers(0, 2, events),
    }
    away = rng.random(int(rng.integers(0, 9))) * 5
    return Log({}, columns, {}, away, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_mean_is_that_of_every_gap_rounded_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each decoding request ends a gap at each step; step j lasts first + j * growth."""
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 3)
    rng = np.random.default_rng(seed)
    events = int(rng.integers(1, 12))
    decodes, steps = rng.integers(0, 300, events).tolist(), rng.integers(1, 40, events).tolist()
    log = log_of([*decodes, 7], [*steps, 1], rng)
    firsts, growths = (log.steps[name].tolist() for name in ("first_step_s", "step_growth_s"))
    gaps = [
        Fraction(first) + j * Fraction(growth)
        for decoding, number, first, growth in zip(
            [*decodes, 7], [*steps, 1], firsts, growths, strict=True
        )
        for j in range(number)
        for _ in range(decoding)
    ]
    gaps += [Fraction(away) for away in log.resume_gaps_s.tolist()]
    exact = sum(gaps, Fraction(0)) / len(gaps)
    assert mean_gap(log, len(gaps)) == exact.numerator / exact.denominator


def test_large_counts_do_not_overflow() -> None:
    """A million requests through a million steps of the same second: 10^12 gaps."""
    ones = {"decodes": np.array([10**6]), "steps": np.array([10**6])}
    times = {"first_step_s": np.array([1.0]), "step_growth_s": np.array([2.0**-20])}
    log = Log({}, {**ones, **times}, {}, np.empty(0), 1.0)
    assert mean_gap(log, 10**12) == 1 + (10**6 - 1) / 2 * 2.0**-20
