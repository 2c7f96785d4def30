"""Independent replicas behind a router: engines of their own, one stream of requests.

Each replica is today's loop over its own scheduler, cache and cost model; all of them are processes
of one SimPy environment. Requests are dealt out as they arrive, by the first engine to wake at or
after that instant, before anything that ends then is counted; so what a router sees doesn't depend
on which engine that is.
"""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import simpy

from sim.cost.base import StepCost
from sim.engine.arrivals import Arrivals, arrivals_of
from sim.engine.closed_loop import ClosedLoop
from sim.engine.loop import Effects
from sim.engine.record import Log, Recorder
from sim.engine.requests import NEVER
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S, Done, Execute, Sleep
from sim.run.driver import steps_to_reach
from sim.run.lockstep import lockstep, ranks_cost
from sim.run.replica_log import merged
from sim.run.routing import Router, make_router
from sim.sequence import Sequence

if TYPE_CHECKING:
    from sim.run.simulation import Setup, Started


def simulate_replicas(
    setup: "Setup", start: Callable[["Setup"], "Started"]
) -> tuple[Log, list[StepCost]]:
    """The log of all replicas together, and their cost models; `start` wires one of them.

    Ranks in lockstep have one cost model together.
    """
    front = Front(setup, make_router(setup.router, setup.trace))
    shares = [front.share(number) for number in range(setup.replicas)]
    alone = replace(setup, replicas=1, lockstep=False)
    each = [start(replace(alone, closed=cast("ClosedLoop", share))) for share in shares]
    front.opens(each)
    env = simpy.Environment(initial_time=0)
    costs: list[StepCost]
    if setup.lockstep:
        together = ranks_cost(setup)
        costs = [together]
        byte_as = AS_PER_S // setup.device.host_bytes_per_s
        env.process(lockstep(env, [rank.effects for rank in each], together, front, byte_as))
    else:
        front.bell = Bell(env)
        costs = [setup.cost() for _ in each]
        for engine, cost in zip(each, costs, strict=True):
            env.process(_engine(env, engine.effects, cost, front, setup))
    env.run()
    return merged([one.recorder.log() for one in each], front.places, front.asked_s, setup), costs


class Bell:
    """Wakes the engines that wait for nothing else than a new request."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self.rings = env.event()

    def ring(self) -> None:
        rings, self.rings = self.rings, self._env.event()
        rings.succeed()


class Front:
    """What stands before the replicas: where requests come from, and where they go."""

    def __init__(self, setup: "Setup", router: Router) -> None:
        self._source: Arrivals = arrivals_of(setup.trace, setup.closed)
        self.waits_for_answers = setup.closed is not None or setup.trace.turns is not None
        self._router = router
        self._inboxes: list[deque[Sequence]] = [deque() for _ in range(setup.replicas)]
        self.loads = [0] * setup.replicas
        self.places = [0] * len(setup.trace)
        self.asked_s: dict[int, float] = {}
        self.bell: Bell | None = None
        self.busy = 0  # engines in a step
        self._each: list[Started] = []
        self.waiting = self  # the source appends to a scheduler's queue: this

    def opens(self, each: "list[Started]") -> None:
        """The replicas are there. Nothing has been dealt out before."""
        self._each = each

    def share(self, number: int) -> "Share":
        """The requests of one replica."""
        return Share(self, number, self._inboxes[number])

    # What an arrival process sees of an engine.

    def servable(self, prompt: int, output: int) -> int:
        return self._each[0].scheduler.servable(prompt, output)

    def append(self, request: Sequence) -> None:
        place = self._router(request, self.loads)
        self.places[request.index] = place
        self.loads[place] += 1
        self._inboxes[place].append(request)

    def asked(self, row: int, arrival_as: int) -> None:
        self.asked_s[row] = arrival_as / AS_PER_S

    def refused(self, row: int) -> None:
        self._each[0].recorder.refused(row)

    def nobody_comes(self) -> bool:
        """Whether no request will come unless one is answered."""
        return self._source.next_as == NEVER

    def has(self, number: int) -> bool:
        """Whether a replica was dealt a request that it hasn't taken."""
        return bool(self._inboxes[number])

    def _stuck(self) -> bool:
        """Whether nobody will ever answer: a policy keeps the rest waiting in empty engines."""
        return not self.busy and not any(self._inboxes)

    # What a replica's share needs.

    def next_as(self) -> int:
        """When a request may come next, as far as anybody knows."""
        coming = self._source.next_as
        if coming == NEVER and self.waits_for_answers and any(self.loads) and not self._stuck():
            return NEVER - 1  # an answer may bring one
        return coming

    def deal(self, now: int) -> None:
        """Hand out what has arrived."""
        if self._source.next_as <= now:
            self._source.receive(now, cast(Scheduler, self), cast(Recorder, self))

    def answered(self, number: int, now: int, left: list[Sequence]) -> None:
        self.loads[number] -= len(left)
        self._source.answered(now, left)
        if self.waits_for_answers and self.bell is not None:
            self.bell.ring()


class Share:
    """The arrivals of one replica, as its loop asks for them."""

    def __init__(self, front: Front, number: int, inbox: deque[Sequence]) -> None:
        self._front, self._number, self._inbox = front, number, inbox

    @property
    def next_as(self) -> int:
        return self._inbox[0].arrival_as if self._inbox else self._front.next_as()

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        self._front.deal(now)
        while self._inbox:
            scheduler.waiting.append(self._inbox.popleft())

    def answered(self, now: int, left: list[Sequence]) -> None:
        self._front.answered(self._number, now, left)


def _engine(
    env: simpy.Environment, effects: Effects, cost: StepCost, front: Front, setup: "Setup"
) -> Generator[simpy.Event, Any, None]:
    """One replica in simulated time.

    Where requests wait for answers, one may come at any instant by another replica's doing: then
    steps are taken one by one.
    """
    fast = setup.fast_forward and not front.waits_for_answers
    byte_as = AS_PER_S // setup.device.host_bytes_per_s  # nobody else uses its way to the host
    effect: Execute | Sleep | None = next(effects, None)
    while effect is not None:
        now = int(env.now)
        if isinstance(effect, Sleep):
            assert front.bell is not None, "the front is open"
            yield env.timeout(effect.until_as - now) | front.bell.rings
            done = Done(int(env.now))
        else:
            plan, until = effect
            front.busy += 1
            moved_as = 0
            if moved := plan.swap_out_bytes + plan.swap_in_bytes:
                moved_as = moved * byte_as
                yield env.timeout(moved_as)
                now += moved_as
            first, growth, steps = cost.linear(plan)
            steps = steps if fast else 1
            duration = steps * first + growth * (steps * (steps - 1) // 2)
            if steps > 1 and duration > until - now:
                steps = steps_to_reach(first, growth, until - now, steps)
                duration = steps * first + growth * (steps * (steps - 1) // 2)
            yield env.timeout(duration)
            front.busy -= 1
            done = Done(now + duration, steps, first + moved_as, growth)
        try:
            effect = effects.send(done)
        except StopIteration:
            return
