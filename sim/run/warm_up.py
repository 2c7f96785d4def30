"""A warm-up: what is simulated, and left out of the metrics.

It ends as the first request arrives that counts: the first at the given instant or later, or the
one after so many. What arrives then or later counts, as do steps and samples that begin then or
later. Steps of requests that came before are among those steps, but those requests' own latencies,
tokens and ends are in no metric.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sim.engine.record import Column, Log
from sim.run.metrics import Floats, Metric
from sim.units import NANOSECONDS, parse_quantity
from workloads.errors import InputError

OF_THE_FIRST_STEP = ("context_tokens", "read_bytes", "admitted", "preempted")
"""Of an event of several steps: not known of the ones after it."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Up to an instant, or so many requests in order of arrival; one of them is None."""

    text: str
    seconds: float | None = None
    requests: int | None = None

    def end_s(self, arrival_s: Column) -> float:
        """When it ends, where requests came at these instants (n,); NaN is who never came.

        Raises InputError where nothing is left to count.
        """
        came: Floats = np.sort(arrival_s[~np.isnan(arrival_s)].astype(np.float64))
        left_out = self.requests
        if left_out is None:
            left_out = int(np.searchsorted(came, self.seconds or 0.0))
        if left_out >= len(came):
            last = f", the last after {came[-1]:,.6g} s" if len(came) else ""
            raise InputError(
                f"--warm-up {self.text}: {len(came):,} requests arrive{last}; expected some to "
                "count"
            )
        return float(came[left_out])


def parse_warm_up(asked: str | int | None) -> WarmUp | None:
    """`300s`, or a number of requests, as text or not. Raises InputError."""
    if asked is None:
        return None
    if isinstance(asked, int) and asked < 0:
        raise InputError(f"--warm-up {asked}: expected a number of requests, or text such as 300s")
    given = str(asked).strip()
    if given.isascii() and given.isdigit():
        if len(given) > 15:
            raise InputError(f"--warm-up {given[:20]}: expected fewer requests")
        return WarmUp(given, requests=int(given))
    return WarmUp(given, seconds=parse_quantity(given, NANOSECONDS, "--warm-up") / 1e9)


def counted(log: Log, since_s: float) -> Log:
    """What arrives or begins at that instant or later; who never came stays, as unfinished."""
    early = log.requests["arrival_s"] < since_s
    sampled = log.timeline["time_s"] >= since_s
    kept = log.resumed_s >= since_s
    return Log(
        {name: column[~early] for name, column in log.requests.items()},
        _steps(log.steps, since_s),
        {name: column[sampled] for name, column in log.timeline.items()},
        log.resume_gaps_s[kept],
        log.end_s,
        log.resumed_s[kept],
        log.held[sampled] if len(log.held) else log.held,
        log.interval_s,
    )


def _steps(steps: Mapping[str, Column], since_s: float) -> dict[str, Column]:
    """Whole events, and of the one during which the warm-up ends the steps that begin after it."""
    late = {
        name: column[steps["end_s"] > since_s]
        for name, column in steps.items()
        if name not in OF_THE_FIRST_STEP
    }
    if not len(late["start_s"]) or late["start_s"][0] >= since_s:
        return late
    number = np.arange(int(late["steps"][0]))
    first, growth = float(late["first_step_s"][0]), float(late["step_growth_s"][0])
    begins = late["start_s"][0] + number * first + growth * (number * (number - 1) // 2)
    begun = int(np.searchsorted(begins, since_s))
    if begun == len(number):
        return {name: column[1:] for name, column in late.items()}
    cut = {name: column.copy() for name, column in late.items()}
    cut["start_s"][0] = begins[begun]
    cut["first_step_s"][0] = first + begun * growth
    cut["step"][0] += begun
    cut["steps"][0] -= begun
    return cut


def told(metrics: list[Metric]) -> list[Metric]:
    """The metrics, saying in their definitions what they leave out."""
    return [replace(one, formula=f"{one.formula}; without the warm-up") for one in metrics]
