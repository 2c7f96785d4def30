"""Latencies of single requests from their table: one definition, of metrics and charts alike."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def request_latencies(requests: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """Seconds by latency, one a request of the table; NaN where it has none. Shape: (requests,)."""
    r = requests
    ttft = np.asarray(r["first_token_s"] - r["arrival_s"], dtype=np.float64)
    e2e = np.asarray(r["finish_s"] - r["arrival_s"], dtype=np.float64)
    several = np.where(r["generated_tokens"] > 1, r["generated_tokens"] - 1, 1)
    tpot = np.where(r["generated_tokens"] > 1, (e2e - ttft) / several, np.nan)
    queue = np.asarray(r["first_scheduled_s"] - r["arrival_s"], dtype=np.float64)
    return {"ttft": ttft, "tpot": tpot, "e2el": e2e, "queue": queue}
