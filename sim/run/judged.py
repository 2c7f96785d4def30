"""All that a run is judged by, of what its options ask for."""

from typing import TYPE_CHECKING

import numpy as np

from sim.engine.record import UNFINISHED, Log
from sim.run.metrics import Metric, compute_metrics
from sim.run.money import money_metrics
from sim.run.replica_log import said_of_replicas
from sim.run.service_level import level_metrics
from sim.run.session_metrics import session_metrics
from sim.run.tables import parts
from sim.run.warm_up import counted, told
from workloads.errors import InputError

if TYPE_CHECKING:
    from sim.run.simulation import Setup


def metrics_of(setup: "Setup", log: Log) -> list[Metric]:
    """All that a run is judged by, without its warm-up."""
    since_s = 0.0 if setup.warm_up is None else setup.warm_up.end_s(log.requests["arrival_s"])
    judged = log if setup.warm_up is None else counted(log, since_s)
    rows = compute_metrics(judged, setup.capacity_bytes)
    if setup.replicas > 1:
        rows = said_of_replicas(rows, setup.replicas, "rank" if setup.lockstep else "replica")
    rows += session_metrics(log, setup.trace, since_s)
    value = {metric.name: metric.value for metric in rows}
    if setup.level is not None:
        rows += level_metrics(setup.level, judged, value["makespan_s"], setup.gpus)
        value |= {metric.name: metric.value for metric in rows}
    rows += money_metrics(setup.money, setup.gpus, value["output_throughput"], value.get("goodput"))
    return rows if setup.warm_up is None else told(rows)


def expect_served(setup: "Setup", log: Log) -> None:
    """Raise InputError where the engine stood still with requests that nothing kept waiting.

    It ends when nobody runs and nobody comes, or at the horizon. Who has asked and is unanswered
    before then was refused by an empty engine: no memory of others' will ever come free.
    """
    stopped_s = np.inf if setup.horizon_s is None else setup.horizon_s
    if log.end_s >= stopped_s:
        return
    asked = (np.inf, 0, 0, 0)  # when, its row and its tokens: of who has waited longest
    start = 0
    for status, asked_s, prompt, output in parts(
        log.requests, "status", "arrival_s", "prompt_tokens", "output_tokens"
    ):
        kept = (status == UNFINISHED) & (np.round(asked_s, 9) < stopped_s)
        if kept.any():
            row = int(np.nanargmin(np.where(kept, asked_s, np.nan)))
            if asked_s[row] < asked[0]:
                asked = (float(asked_s[row]), start + row, int(prompt[row]), int(output[row]))
        start += len(status)
    since_s, row, prompt_tokens, output_tokens = asked
    if since_s == np.inf:
        return
    raise InputError(
        f"--policy {setup.label}: refuses request {row:,} in an empty engine for ever "
        f"({prompt_tokens:,} tokens of prompt, {output_tokens:,} of output); expected that "
        "release() frees all that was taken, and that longest() is what can be admitted"
    )
