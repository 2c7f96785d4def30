"""One configuration: its options in, its metrics as one row out. What workers do."""

from dataclasses import dataclass, field
from typing import Any

from sim.policy import plugins
from sim.policy.spec import Policy
from sim.run.costs import CostSpec
from sim.run.form import compiles
from sim.run.options import RunOptions
from sim.run.seam import told_by
from sim.run.simulation import Run, Setup, execute, prepared
from sim.sweep.grid import Value, with_values
from workloads.errors import InputError
from workloads.schema import Trace

Row = dict[str, Any]
"""`error`, or None and the metrics by name."""


@dataclass(frozen=True)
class Work:
    """What all runs share. Sent to each worker once."""

    base: RunOptions
    policies: dict[str, type[Policy]] = field(default_factory=dict)  # that --plugin files brought
    costs: dict[str, type[CostSpec]] = field(default_factory=dict)  # likewise
    told: frozenset[str] = frozenset()  # notes on plug-ins that errors needn't repeat

    def loads(self, trace: Trace, point: dict[str, Value]) -> bool:
        """Whether a run here would load machine code, which workers forked later need not.

        What any run needs is loaded by asking.
        """
        try:
            setup = prepared(trace, with_values(self.base, point))
            with told_by(setup.policy, setup.label):
                return compiles(setup, setup.cost())
        except InputError:
            return False

    def run(self, trace: Trace, point: dict[str, Value]) -> Row:
        """The row of one combination; what can't be run says so and stops nobody else."""
        plugins.files.policies.update(self.policies)
        plugins.costs.update(self.costs)
        plugins.told.update(self.told)
        try:
            run = execute(prepared(trace, with_values(self.base, point)))
        except InputError as error:
            return {"error": str(error)}
        return row_of(run)


def resolved(setup: Setup) -> Row:
    """Settings in place of those that were left to defaults."""
    names = ("max_num_seqs", "max_num_batched_tokens", "max_model_len")
    return {name: getattr(setup.limits, name) for name in names}


def row_of(run: Run) -> Row:
    """What a table says of a run beside its settings."""
    setup = run.setup
    found: Row = {"error": None, **resolved(setup), "gpus": setup.gpus}
    found["kv_capacity_bytes"] = setup.pool.capacity_bytes
    return found | {metric.name: metric.value for metric in run.metrics_list}
