"""All that a run is judged by, of what its options ask for."""

from typing import TYPE_CHECKING

from sim.engine.record import Log
from sim.run.metrics import Metric, compute_metrics
from sim.run.money import money_metrics
from sim.run.replica_log import said_of_replicas
from sim.run.service_level import level_metrics
from sim.run.session_metrics import session_metrics
from sim.run.warm_up import counted, told

if TYPE_CHECKING:
    from sim.run.simulation import Setup


def metrics_of(setup: "Setup", log: Log) -> list[Metric]:
    """All that a run is judged by, without its warm-up."""
    since_s = 0.0 if setup.warm_up is None else setup.warm_up.end_s(log.requests["arrival_s"])
    judged = log if setup.warm_up is None else counted(log, since_s)
    rows = compute_metrics(judged, setup.capacity_bytes)
    if setup.replicas > 1:
        rows = said_of_replicas(rows, setup.replicas)
    rows += session_metrics(log, setup.trace, since_s)
    value = {metric.name: metric.value for metric in rows}
    if setup.level is not None:
        rows += level_metrics(setup.level, judged, value["makespan_s"], setup.gpus)
        value |= {metric.name: metric.value for metric in rows}
    rows += money_metrics(setup.money, setup.gpus, value["output_throughput"], value.get("goodput"))
    return rows if setup.warm_up is None else told(rows)
