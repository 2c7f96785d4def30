"""What several replicas did, as one log: requests where they were served, samples summed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sim.engine.record import SAMPLE_COUNTS, Column, Log
from sim.run.metrics import Metric, reached

if TYPE_CHECKING:
    from sim.run.simulation import Setup

OF_ONE = ("running_peak", "waiting_peak", "kv_used_peak_bytes")
"""Peaks are of steps, and steps are of one replica."""


def merged(
    logs: Sequence[Log], places: Sequence[int], asked_s: dict[int, float], setup: "Setup"
) -> Log:
    """One log. Requests and events have a column `replica`; samples are at the nominal instants."""
    place = np.asarray(places, dtype=np.int64)
    rows = np.arange(len(place))
    requests: dict[str, Column] = {
        name: np.stack([log.requests[name] for log in logs])[place, rows]
        for name in logs[0].requests
    }
    if setup.closed is not None or setup.trace.turns is not None:
        requests["arrival_s"] = np.array([asked_s.get(row, np.nan) for row in rows.tolist()])
    requests["replica"] = place
    events = {name: np.concatenate([log.steps[name] for log in logs]) for name in logs[0].steps}
    events["replica"] = np.repeat(np.arange(len(logs)), [len(log.steps["step"]) for log in logs])
    order = np.argsort(events["start_s"], kind="stable")
    return Log(
        requests,
        {name: column[order] for name, column in events.items()},
        _samples(logs, setup.interval_s, setup.pool.capacity_bytes),
        np.concatenate([log.resume_gaps_s for log in logs]),
        max(log.end_s for log in logs),
        np.concatenate([log.resumed_s for log in logs]),
    )


def _samples(logs: Sequence[Log], interval_s: float, capacity_bytes: int) -> dict[str, Column]:
    """Sums at every instant. A replica without a sample there is as it was in the one before; one
    that has ended holds nothing, but for what its cache keeps."""
    # A sample is taken in the first step that begins when it is due or later.
    numbers = [reached(log.timeline["time_s"], interval_s) for log in logs]
    instants = np.arange(max(int(number[-1]) for number in numbers) + 1)
    sums: dict[str, Column] = {
        name: np.zeros(len(instants), dtype=np.int64) for name in SAMPLE_COUNTS
    }
    for log, number in zip(logs, numbers, strict=True):
        latest = np.maximum(np.searchsorted(number, instants, side="right") - 1, 0)
        over = instants * interval_s > max(log.end_s, float(log.timeline["time_s"][-1]))
        for name in SAMPLE_COUNTS:
            values = log.timeline[name][latest]
            if name == "free_bytes":
                values = np.where(over, capacity_bytes, values)
            elif name != "cached_bytes":
                values = np.where(over, 0, values)
            sums[name] = sums[name] + values
    time_s: Column = instants.astype(np.float64) * interval_s
    return {"time_s": time_s, **sums}


def said_of_replicas(metrics: list[Metric], replicas: int, what: str = "replica") -> list[Metric]:
    """The metrics of a merged log in their meaning for several replicas."""
    found = []
    for metric in metrics:
        if metric.name == "busy_share" and metric.value is not None:
            formula = f"{metric.formula}, mean of {replicas} {what}s"
            metric = replace(metric, value=metric.value / replicas, formula=formula)
        elif metric.name in OF_ONE:
            label, formula = f"{metric.label} of one {what}", f"{metric.formula}, of any one {what}"
            metric = replace(metric, label=label, formula=formula)
        found.append(metric)
    return found
