"""SimPy turns the engine's effects into timeouts whose lengths a cost model predicts."""

from collections.abc import Generator

import simpy

from sim.cost.base import StepCost
from sim.engine import Effects
from sim.plan import Done, Sleep, from_fields

make_done = from_fields(Done)


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
    timeout, linear, send = env.timeout, cost.linear, effects.send
    now = 0
    effect = next(effects, None)
    while effect is not None:
        if isinstance(effect, Sleep):
            done = Done(effect.until_as)
        else:
            plan, until = effect
            first, growth, steps = linear(plan)
            if not fast_forward:
                steps = 1
            if steps == 1:
                duration = first
            else:
                duration = steps * first + growth * (steps * (steps - 1) // 2)
                span = until - now
                if duration > span:
                    steps = steps_to_reach(first, growth, span, steps)
                    duration = steps * first + growth * (steps * (steps - 1) // 2)
            done = make_done((now + duration, steps, first, growth))
        until = done[0]
        yield timeout(until - now)
        now = until
        try:
            effect = send(done)
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
