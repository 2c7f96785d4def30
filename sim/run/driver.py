"""SimPy turns the engine's effects into timeouts whose lengths a cost model predicts."""

from collections.abc import Generator

import simpy

from sim.cost.base import StepCost
from sim.engine.loop import Effects
from sim.hardware import PCIE_4
from sim.plan import AS_PER_S, Done, Sleep, from_fields

make_done = from_fields(Done)


def run_simulated(
    effects: Effects, cost: StepCost, fast_forward: bool = True, host_bytes_per_s: int = PCIE_4
) -> None:
    """Carry out the effects in simulated time, from 0.

    With `fast_forward` one event covers all steps of an unchanged batch; without it, each step is
    an event. Both end every step at the same attosecond. A step whose plan swaps waits for the link
    to the host, one transfer at a time, as its blocks are read or overwritten by it.

    The engine runs ahead of SimPy's clock while nothing else is due before it: nobody could tell
    the difference, and half of an event's time would go into SimPy's queue of one. It waits for
    its own time before anyone else's, before it asks for the link, and at its end.
    """
    env = simpy.Environment(initial_time=0)
    link = _HostLink(env, host_bytes_per_s)
    env.process(_engine(env, effects, cost, fast_forward, link))
    env.run()


class _HostLink:
    """The way to host memory, one transfer at a time."""

    def __init__(self, env: simpy.Environment, bytes_per_s: int) -> None:
        self._env = env
        self._turn = simpy.Resource(env, capacity=1)
        self._byte_as = AS_PER_S // bytes_per_s

    def move(self, size_bytes: int) -> Generator[simpy.Event, None, None]:
        with self._turn.request() as turn:
            yield turn
            yield self._env.timeout(size_bytes * self._byte_as)


def _engine(
    env: simpy.Environment, effects: Effects, cost: StepCost, fast_forward: bool, link: _HostLink
) -> Generator[simpy.Event, None, None]:
    timeout, linear, send = env.timeout, cost.linear, effects.send
    now = waited = 0  # the engine's own clock, and SimPy's
    others = env.peek()  # when somebody else acts next
    effect = next(effects, None)
    while effect is not None:
        if isinstance(effect, Sleep):
            done = Done(effect.until_as)
        else:
            plan, until = effect
            before = now
            if moved := plan.swap_out_bytes + plan.swap_in_bytes:
                if now > waited:
                    yield timeout(now - waited)
                yield from link.move(moved)
                now = waited = int(env.now)
                others = env.peek()
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
            done = make_done((now + duration, steps, first + now - before, growth))
        now = done[0]
        if now >= others:
            yield timeout(now - waited)
            waited = now
            others = env.peek()
        try:
            effect = send(done)
        except StopIteration:
            break
    if now > waited:
        yield timeout(now - waited)


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
