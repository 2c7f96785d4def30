"""Arrival processes: n requests from 0.0 s on, at a mean rate."""

from collections.abc import Callable

import numpy as np

from workloads import spec
from workloads.schema import Floats

# (requests, requests per second, generator) -> arrivals (requests,) in seconds, the first at 0.0
ArrivalProcess = Callable[[int, float, np.random.Generator], Floats]

KINDS = ("poisson", "gamma", "constant", "all-at-once")


def parse_arrivals(text: str) -> ArrivalProcess:
    """`poisson`, `gamma:cv=3`, `constant` or `all-at-once`. Raises InputError."""
    parsed = spec.parse(text, KINDS)
    if parsed.kind == "gamma":
        (cv,) = parsed.fields("cv")
        return gamma(cv)
    parsed.fields()
    return {"poisson": poisson, "constant": constant, "all-at-once": all_at_once}[parsed.kind]


def poisson(requests: int, request_rate: float, rng: np.random.Generator) -> Floats:
    """Independent exponential gaps of mean 1 / request_rate."""
    return _from_gaps(rng.exponential(1 / request_rate, requests - 1))


def gamma(cv: float) -> ArrivalProcess:
    """Gamma gaps whose coefficient of variation is cv: 1 is Poisson, above it comes in bursts.

    vLLM's `burstiness` is the shape, 1 / cv².
    """
    shape = cv**-2

    def process(requests: int, request_rate: float, rng: np.random.Generator) -> Floats:
        return _from_gaps(rng.gamma(shape, 1 / (shape * request_rate), requests - 1))

    return process


def constant(requests: int, request_rate: float, rng: np.random.Generator) -> Floats:
    """Gaps of exactly 1 / request_rate; rng is not used."""
    return np.arange(requests) / request_rate


def all_at_once(requests: int, request_rate: float, rng: np.random.Generator) -> Floats:
    """Every request at 0.0 s; neither rate nor rng is used."""
    return np.zeros(requests)


def _from_gaps(gaps: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(gaps)))
