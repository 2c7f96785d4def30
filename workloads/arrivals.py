"""Arrival processes: n requests from 0.0 s on, at a mean rate."""

from collections.abc import Callable

import numpy as np

from workloads import spec
from workloads.errors import InputError
from workloads.schema import Floats

# (requests, requests per second, generator) -> arrivals (requests,) in seconds, the first at 0.0
ArrivalProcess = Callable[[int, float, "np.random.Generator"], Floats]

FEW_CYCLES = 5
"""Over fewer a process with slow changes of its rate may be far from its mean."""

KINDS = ("poisson", "gamma", "bursts", "diurnal", "constant", "all-at-once")


def parse_arrivals(text: str) -> ArrivalProcess:
    """`poisson`, `gamma:cv=3`, `bursts:factor=5,share=0.1,length=30`,
    `diurnal:swing=0.8,period=86400`, `constant` or `all-at-once`. Raises InputError."""
    parsed = spec.parse(text, KINDS)
    if parsed.kind == "gamma":
        (cv,) = parsed.fields("cv")
        return gamma(cv)
    if parsed.kind == "bursts":
        factor, share, length_s = parsed.fields("factor", "share", "length")
        if share >= 1 or not 1 < factor <= 1 / share:
            raise InputError(
                f"{text!r}: expected share below 1 and factor above 1, at most 1 / share, or the "
                "mean rate can't be kept"
            )
        return bursts(factor, share, length_s)
    if parsed.kind == "diurnal":
        swing, period_s = parsed.fields("swing", "period")
        if swing > 1:
            raise InputError(f"{text!r}: swing is {swing:g}, expected at most 1")
        return diurnal(swing, period_s)
    parsed.fields()
    return {"poisson": poisson, "constant": constant, "all-at-once": all_at_once}[parsed.kind]


def rate_note(text: str, request_rate: float, arrival_s: Floats) -> str | None:
    """Why these arrivals (n,) may miss the rate: they span few of their process's cycles."""
    parsed = spec.parse(text, KINDS)
    if parsed.kind == "bursts":
        cycle_s, cycle = (
            parsed.options["length"] / parsed.options["share"],
            "a burst and a calm take",
        )
    elif parsed.kind == "diurnal":
        cycle_s, cycle = parsed.options["period"], "a period takes"
    else:
        return None
    span_s = float(arrival_s[-1])
    if span_s >= FEW_CYCLES * cycle_s or span_s == 0:
        return None
    return (
        f"{text}: arrivals span {span_s:,.4g} s, {cycle} {cycle_s:,.6g} s on average: the rate "
        f"is {len(arrival_s) / span_s:.4g} requests/s, not {request_rate:g}"
    )


def poisson(requests: int, request_rate: float, rng: "np.random.Generator") -> Floats:
    """Independent exponential gaps of mean 1 / request_rate."""
    return _from_gaps(rng.exponential(1 / request_rate, requests - 1))


def gamma(cv: float) -> ArrivalProcess:
    """Gamma gaps whose coefficient of variation is cv: 1 is Poisson, above it comes in bursts.

    vLLM's `burstiness` is the shape, 1 / cv².
    """
    shape = cv**-2

    def process(requests: int, request_rate: float, rng: "np.random.Generator") -> Floats:
        return _from_gaps(rng.gamma(shape, 1 / (shape * request_rate), requests - 1))

    return process


def bursts(factor: float, share: float, length_s: float) -> ArrivalProcess:
    """A Poisson process whose rate jumps: `share` of the time it is `factor` times the mean.

    A two-state Markov-modulated Poisson process (Fischer and Meier-Hellstern, 1993): bursts last
    `length_s` on average and what lies between them so long that the share is kept; there the rate
    is what keeps the mean.
    """
    calm = (1 - share * factor) / (1 - share)
    pause_s = length_s * (1 - share) / share

    def process(requests: int, request_rate: float, rng: "np.random.Generator") -> Floats:
        expected = np.cumsum(rng.exponential(1, requests - 1))  # of a process with rate 1
        until_s, served = [0.0], [0.0]
        in_burst = bool(rng.random() < share)
        while served[-1] <= (expected[-1] if requests > 1 else 0):
            lasts_s = rng.exponential(length_s if in_burst else pause_s)
            until_s.append(until_s[-1] + lasts_s)
            rate = request_rate * (factor if in_burst else calm)
            served.append(served[-1] + lasts_s * rate)
            in_burst = not in_burst
        return _shifted(np.interp(expected, served, until_s))

    return process


def diurnal(swing: float, period_s: float) -> ArrivalProcess:
    """A Poisson process of rate mean · (1 − swing · cos(2π t / period)), so lowest at first."""

    def process(requests: int, request_rate: float, rng: "np.random.Generator") -> Floats:
        expected = np.cumsum(rng.exponential(1, requests - 1))
        last = expected[-1] if requests > 1 else 0.0
        periods = int(last / (request_rate * period_s)) + 2
        phase = np.linspace(0, 2 * np.pi * periods, 4096 * periods + 1)
        t_s = phase * period_s / (2 * np.pi)
        served = request_rate * (t_s - swing * period_s / (2 * np.pi) * np.sin(phase))
        return _shifted(np.interp(expected, served, t_s))

    return process


def constant(requests: int, request_rate: float, rng: "np.random.Generator") -> Floats:
    """Gaps of exactly 1 / request_rate; rng is not used."""
    return np.arange(requests) / request_rate


def all_at_once(requests: int, request_rate: float, rng: "np.random.Generator") -> Floats:
    """Every request at 0.0 s; neither rate nor rng is used."""
    return np.zeros(requests)


def _shifted(later: Floats) -> Floats:
    """A request at 0.0 s before those."""
    return np.concatenate(([0.0], later))


def _from_gaps(gaps: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(gaps)))
