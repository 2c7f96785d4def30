"""Latencies of single requests, from their rows. Their percentiles are the producer's metrics."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reports.load import Run
from reports.request_times import LATENCY_COLUMNS, latency
from workloads.spool import finite, parts

Floats = NDArray[np.float64]


class Latency(NamedTuple):
    """Known values of one latency and how many requests there could have been at most."""

    values: Floats
    of: int


def time_to_first_token(run: Run) -> Latency:
    """Seconds from arrival to first token; requests that never got one stay in the count."""
    return _latency(run, "ttft")


def end_to_end(run: Run) -> Latency:
    """Seconds from arrival to last token; refused and unfinished requests stay in the count."""
    return _latency(run, "e2el")


def time_per_output_token(run: Run) -> Latency:
    """Seconds a token after the first; requests that asked for a single one are left out."""
    return _latency(run, "tpot", least_output=2)


def _latency(run: Run, name: str, least_output: int = 0) -> Latency:
    """Of the requests that the metrics are about: all but those of a warm-up."""
    since_s = run.info.warm_up.end_s if run.info.warm_up else -np.inf
    counted = 0

    def by_parts() -> Iterator[Floats]:
        nonlocal counted
        columns = LATENCY_COLUMNS[name]
        for asked, *needed in parts(run.requests, "output_tokens", *columns):
            part = dict(zip(columns, needed, strict=True))
            rows = (asked >= least_output) & ~(part["arrival_s"] < since_s)
            counted += int(rows.sum())
            yield latency(name, part)[rows]

    values = finite(len(run.requests["arrival_s"]), by_parts())
    return Latency(values, counted)
