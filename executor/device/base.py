"""What a driver needs of a device: carry out a step and say how long it took."""

from typing import Protocol

from executor.work import Work
from sim.cost.base import StepCost
from sim.plan import StepPlan


class Device(Protocol):
    """Runs steps one by one."""

    def run(self, plan: StepPlan, work: Work) -> int:
        """Carry out the plan's first repetition; attoseconds it took."""
        ...


class NullDevice:
    """No hardware: each step takes what the cost model says.

    The whole executor can be tested on it, and its run must equal the simulator's.
    """

    def __init__(self, cost: StepCost) -> None:
        self._cost = cost

    def run(self, plan: StepPlan, work: Work) -> int:
        return self._cost.linear(plan)[0]
