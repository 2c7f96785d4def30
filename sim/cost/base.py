"""What a driver asks of a cost model: how long is this step, and what does the answer rest on?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sim.plan import StepPlan


class Constant(NamedTuple):
    """Shown in every report that used it."""

    name: str
    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What real kernels reach of the datasheet, each named with its source."""

    bandwidth: Constant = Constant(
        "bandwidth_efficiency",
        0.90,
        "of peak",
        "device copy measured on an H200: 4.3 of 4.8 TB/s",
    )
    matmul: Constant = Constant(
        "matmul_efficiency",
        0.80,
        "of peak",
        "bf16 GEMM 8192^3 measured on an H200: 790 of 989 TFLOP/s",
    )
    attention: Constant = Constant(
        "attention_efficiency",
        0.60,
        "of peak",
        "causal prefill attention, Dao, FlashAttention-2 (2023), A100 forward: 60 to 73 %",
    )
    overhead: Constant = Constant(
        "step_overhead",
        0.001,
        "s",
        "scheduling, input preparation and sampling a step; assumed, to be calibrated",
    )


class StepCost(Protocol):
    """Predicted time of a step, linear in its repetitions."""

    name: str

    @property
    def constants(self) -> tuple[Constant, ...]:
        """What the prediction rests on, for the report."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where the prediction left what it rests on, so far."""
        ...

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid): repetition j of the plan, j < valid, takes first + j * growth.

        Attoseconds, integers; `valid` is at most `plan.max_steps`. The same step must cost the
        same however it is reached: asked for the plan of repetition j, the model must answer
        first + j * growth.
        """
        ...


Plans = Sequence[StepPlan | None]
"""Of every rank; None where it has nothing to do."""


class RanksCost(StepCost, Protocol):
    """Predicted time of a step of several ranks. `linear` is of one whose others are idle."""

    def together_as(self, plans: Plans) -> int:
        """Attoseconds until the slowest rank has done its part."""
        ...
