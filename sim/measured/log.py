"""A measured run in the tables of a simulated one, so that a report can lay them side by side."""

from dataclasses import replace

import numpy as np

from reports.files import MEMORY
from reports.recorded import unrecorded
from sim.engine.record import (
    FINISHED,
    SAMPLE_COUNTS,
    STEP_COUNTS,
    STEP_TIMES,
    Column,
    Log,
)
from sim.measured.run import Measured
from sim.run.metrics import compute_metrics
from sim.run.simulation import Run


def as_run(measured: Measured, predicted: Run) -> Run:
    """The measured run on the predicted one's setup; metrics of what wasn't recorded are null.

    Steps were not recorded. In the samples KV in use is all under live: the engine doesn't tell
    its parts. What the engine counted itself is taken from there.
    """
    log = measured_log(measured, predicted.setup.pool.capacity_bytes)
    setup = replace(predicted.setup, label="measured")
    counted = measured.counted
    unknown = unrecorded(0, log.timeline, counted)
    metrics = [
        replace(one, value=None if one.name in unknown else counted.get(one.name, one.value))
        for one in compute_metrics(log, setup.pool.capacity_bytes)
    ]
    return Run(setup, log, predicted.cost, metrics, kind="measured", counted=tuple(sorted(counted)))


def measured_log(measured: Measured, capacity_bytes: int) -> Log:
    """Requests and samples; a table of steps without rows."""
    trace, n = measured.trace, len(measured.trace)
    zeros = np.zeros(n, dtype=np.int64)
    requests: dict[str, Column] = {
        "request_id": np.arange(n, dtype=np.int64),
        "arrival_s": trace.arrival_s,
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "status": np.full(n, FINISHED, dtype=np.int64),
        "first_scheduled_s": np.full(n, np.nan),
        "first_token_s": measured.first_token_s,
        "finish_s": measured.last_token_s,
        "generated_tokens": trace.output_tokens,
        "preemptions": zeros,
        "recomputed_tokens": zeros,
        "cached_tokens": zeros,
        "swapped_bytes": zeros,
    }
    steps: dict[str, Column] = {name: np.empty(0) for name in STEP_TIMES}
    steps |= {name: np.empty(0, dtype=np.int64) for name in STEP_COUNTS}
    series = measured.series
    live = np.round(series["kv_cache_pct"] / 100 * capacity_bytes).astype(np.int64)
    timeline: dict[str, Column] = {"time_s": series["t"]}
    timeline |= {name: np.zeros(len(live), dtype=np.int64) for name in SAMPLE_COUNTS}
    for name in ("running", "waiting"):
        timeline[name] = series[name].astype(np.int64)
    assert {"live", "free"} <= set(MEMORY)
    timeline["live_bytes"], timeline["free_bytes"] = live, capacity_bytes - live
    return Log(requests, steps, timeline, np.empty(0), float(measured.last_token_s.max()))
