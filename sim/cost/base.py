"""What a driver asks of a cost model: how long is this step, and what does the answer rest on?"""

from typing import NamedTuple, Protocol

from sim.plan import StepPlan


class Constant(NamedTuple):
    """Shown in every report that used it."""

    name: str
    value: float
    unit: str
    source: str


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
