"""Latencies of single requests from their table: one definition, of metrics and charts alike."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


LATENCY_COLUMNS = {
    "ttft": ("first_token_s", "arrival_s"),
    "tpot": ("finish_s", "first_token_s", "arrival_s", "generated_tokens"),
    "e2el": ("finish_s", "arrival_s"),
    "queue": ("first_scheduled_s", "arrival_s"),
}
"""Of the requests' table, those that a latency is of."""


def request_latencies(requests: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """Seconds by latency, one a request of the table; NaN where it has none. Shape: (requests,)."""
    return {name: latency(name, requests) for name in LATENCY_COLUMNS}


def latency(name: str, requests: Mapping[str, NDArray[Any]]) -> Floats:
    """One of them."""
    if name == "tpot":
        ttft, e2e = latency("ttft", requests), latency("e2el", requests)
        tokens = requests["generated_tokens"]
        several = np.where(tokens > 1, tokens - 1, 1)
        return np.where(tokens > 1, (e2e - ttft) / several, np.nan)
    end, begin = LATENCY_COLUMNS[name]
    return np.asarray(requests[end] - requests[begin], dtype=np.float64)
