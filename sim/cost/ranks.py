"""Steps of data-parallel ranks that hold a model's experts together: all of them step as one.

Each rank computes attention and dense layers of its own batch. Before a layer's experts every rank
gathers the tokens of all, and each computes those that chose its experts; after them every rank
gets the sums of its own tokens back. So no layer ends before the slowest rank's attention. Where a
CUDA graph is replayed, all are padded to the largest batch; an idle rank computes one token (vLLM
v1/worker/dp_utils.py, v1/engine/core.py).
"""

from sim.cost.base import Plans
from sim.cost.kernels.collectives import Collectives, batches, tokens_of
from sim.cost.roofline import FixedStep, Roofline
from sim.hardware import Device
from sim.model.geometry import Model
from sim.plan import StepPlan


class RooflineRanks(Roofline):
    """The roofline of one of `ranks` equal devices, experts divided over them."""

    def __init__(self, model: Model, device: Device, ranks: int, padded_to: int) -> None:
        super().__init__(model, device)
        self._ranks, self._padded_to = ranks, padded_to
        self._collectives = Collectives(model, device)
        self.constants += self._collectives.constants
        self.warnings = self._collectives.warnings
        weights = model.weights
        flop_as = self._token_as / weights.multiplied
        self._experts_as = round(weights.active_experts * flop_as)  # of a token
        self._dense_as = self._token_as - self._experts_as

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        return self.together_as([plan, *[None] * (self._ranks - 1)]), 0, 1

    def together_as(self, plans: Plans) -> int:
        """Attoseconds until the slowest rank has done its part."""
        tokens = batches([tokens_of(plan) for plan in plans], self._padded_to)
        pooled = sum(tokens)
        experts = self._experts_as * pooled // self._ranks
        products = max(
            count * self._dense_as + samples_of(plan) * self._sample_as
            for count, plan in zip(tokens, plans, strict=True)
        )
        dense = self._model.weight_read_bytes(0)
        own = dense + -(-(self._model.weight_read_bytes(pooled) - dense) // self._ranks)
        attention = max(self._attention_as(plan) for plan in plans)
        reading = own * self._byte_as
        step = self._overhead_as + attention + max(reading, products + experts)
        return step + self._collectives.step_as(pooled)

    def _attention_as(self, plan: StepPlan | None) -> int:
        if plan is None:
            return 0
        count, samples = tokens_of(plan), samples_of(plan)
        alone = self.step_as(plan.decodes, plan.prefill_tokens, plan.read_bytes, plan.chunks)
        arithmetic = count * self._token_as + samples * self._sample_as
        return alone - self._overhead_as - max(self._reading_as(count), arithmetic)


def samples_of(plan: StepPlan | None) -> int:
    """Tokens that a rank samples."""
    return 0 if plan is None else plan.decodes + sum(chunk.last for chunk in plan.chunks)


class FixedRanks(FixedStep):
    """As many seconds a step, whatever the ranks compute."""

    def together_as(self, plans: Plans) -> int:
        """Attoseconds until the slowest rank has done its part."""
        return self._step_as
