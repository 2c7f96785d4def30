"""Steps of data-parallel ranks over measured kernels (`sim.cost.ranks`)."""

from sim.cost.base import Constant, Plans
from sim.cost.kernels.collectives import Collectives, batches, tokens_of
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.rules import captured_size
from sim.plan import StepPlan
from workloads.errors import InputError


class TableRanks:
    """One device's kernels on each of `ranks`: attention of the slowest, the rest as padded.

    Experts take a share of all ranks' tokens (`Experts.share`). What follows the last layer is of
    the rank with most sequences: nobody begins the next step before it.
    """

    name = "table"

    def __init__(self, table: KernelTable, collectives: Collectives, ranks: int) -> None:
        if not table.knows_experts:
            raise InputError(
                "--data-parallel: the profile times experts by tokens alone; expected one from a "
                "moe.csv with activated_experts"
            )
        self._table, self._collectives, self._ranks = table, collectives, ranks

    @property
    def constants(self) -> tuple[Constant, ...]:
        """What the prediction rests on, for the report."""
        return self._table.constants + self._collectives.constants

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where the prediction left what it rests on, so far."""
        return self._collectives.warnings + self._table.warnings

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds, other ranks idle; see `StepCost`."""
        return self.together_as([plan, *[None] * (self._ranks - 1)]), 0, 1

    def together_as(self, plans: Plans) -> int:
        """Attoseconds until the slowest rank has done its part."""
        table, limit = self._table, self._table.rules.padded_to
        tokens = batches([captured_size(tokens_of(plan), limit) for plan in plans], limit)
        pooled = sum(tokens), self._ranks
        attention = max(0 if plan is None else table.attention_as(plan) for plan in plans)
        rest = max(
            table.rest_as(count, 1 if plan is None else plan.decodes + len(plan.chunks), pooled)
            for count, plan in zip(tokens, plans, strict=True)
        )
        return attention + rest + self._collectives.step_as(pooled[0])
