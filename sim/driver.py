"""SimPy turns the engine's effects into timeouts whose lengths a cost model predicts."""

from collections.abc import Generator

import simpy

from sim.cost.base import StepCost
from sim.engine import Effects
from sim.plan import Done, Sleep


def run_simulated(effects: Effects, cost: StepCost, fast_forward: bool = True) -> None:
    """Carry out the effects in simulated time, from 0.

    With `fast_forward` one event covers all steps of an unchanged batch; without it, each step is
    an event. Both end every step at the same attosecond.
    """
    env = simpy.Environment(initial_time=0)
    env.process(_engine(env, effects, cost, fast_forward))
    env.run()


def _engine(
    env: simpy.Environment, effects: Effects, cost: StepCost, fast_forward: bool
) -> Generator[simpy.Event, None, None]:
    effect = next(effects, None)
    while effect is not None:
        now = int(env.now)
        if isinstance(effect, Sleep):
            yield env.timeout(effect.until_as - now)
            done = Done(effect.until_as)
        else:
            plan, until = effect
            first, growth, valid = cost.linear(plan)
            steps = 1
            if fast_forward:
                steps = min(plan.max_steps, valid)
                if until is not None and steps > 1:
                    steps = steps_to_reach(first, growth, until - now, steps)
            duration = steps * first + growth * (steps * (steps - 1) // 2)
            yield env.timeout(duration)
            done = Done(now + duration, steps, first, growth)
        try:
            effect = effects.send(done)
        except StopIteration:
            return


def steps_to_reach(first: int, growth: int, span: int, limit: int) -> int:
    """The fewest steps, at least 1 and at most `limit`, that last `span` or longer together.

    Step j (from 0) lasts `first + j * growth`; all integers.
    """
    if span <= first:
        return 1
    if growth == 0:
        return min(limit, -(-span // first))
    b = first - growth / 2
    guess = int((-b + (b * b + 2.0 * growth * span) ** 0.5) / growth)
    k = max(1, min(limit, guess))
    while k < limit and k * first + growth * (k * (k - 1) // 2) < span:
        k += 1
    while k > 1 and (k - 1) * first + growth * ((k - 1) * (k - 2) // 2) >= span:
        k -= 1
    return k
