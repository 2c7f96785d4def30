"""Latencies of single requests, from their rows. Their percentiles are the producer's metrics."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reports.load import Run
from reports.request_times import request_latencies

Floats = NDArray[np.float64]


class Latency(NamedTuple):
    """Known values of one latency and how many requests there could have been at most."""

    values: Floats
    of: int


def that_count(run: Run) -> NDArray[np.bool_]:
    """Which requests (n,) the metrics are about: all but those of a warm-up."""
    since_s = run.info.warm_up.end_s if run.info.warm_up else -np.inf
    arrived: NDArray[np.bool_] = ~(run.requests["arrival_s"] < since_s)
    return arrived


def time_to_first_token(run: Run) -> Latency:
    """Seconds from arrival to first token; requests that never got one stay in the count."""
    return _known(request_latencies(run.requests)["ttft"][that_count(run)])


def end_to_end(run: Run) -> Latency:
    """Seconds from arrival to last token; refused and unfinished requests stay in the count."""
    return _known(request_latencies(run.requests)["e2el"][that_count(run)])


def time_per_output_token(run: Run) -> Latency:
    """Seconds a token after the first; requests that asked for a single one are left out."""
    asked = (run.requests["output_tokens"] >= 2) & that_count(run)
    return _known(request_latencies(run.requests)["tpot"][asked])


def _known(seconds: NDArray[Any]) -> Latency:
    return Latency(seconds[np.isfinite(seconds)], len(seconds))
