"""Every step takes the same time: for engines of which only that is known, and for arithmetic."""

from sim.cost.constant import Constant
from sim.plan import AS_PER_S, StepPlan


class FixedStep:
    """`seconds` a step, whatever it computes."""

    name = "fixed"
    warnings = ()

    def __init__(self, seconds: float, source: str) -> None:
        self.constants: tuple[Constant, ...] = (Constant("step", seconds, "s", source),)
        self._step_as = round(seconds * AS_PER_S)

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        return self._step_as, 0, plan.max_steps
