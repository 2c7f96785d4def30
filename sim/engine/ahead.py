"""The loop of an engine that plans one step ahead (vLLM's async scheduling).

While a step runs, the next is already planned. At the end of step k the engine delivers its tokens,
lets the finished go, takes new arrivals and plans step k + 2. So an arrival waits a step longer,
the memory of the finished comes free a step later, and the host's work hides behind the device's.
"""

from typing import NamedTuple

from sim.engine.arrivals import arrivals_of
from sim.engine.closed_loop import ClosedLoop
from sim.engine.loop import Effects
from sim.engine.record import Recorder
from sim.engine.requests import NEVER
from sim.engine.scheduler import Scheduler
from sim.plan import Execute, Sleep, StepPlan
from sim.sequence import Sequence
from workloads.schema import Trace


class Flight(NamedTuple):
    """A step that is planned but has not run, and whom it gives a first or a last token."""

    plan: StepPlan
    first: list[Sequence]
    finished: list[Sequence]


def serve_ahead(
    trace: Trace,
    scheduler: Scheduler,
    recorder: Recorder,
    horizon_as: int | None = None,
    closed: ClosedLoop | None = None,
) -> Effects:
    """As `sim.engine.loop.serve`, one step ahead.

    Steps of an unchanged batch are one effect here too: the step in flight and the repetitions
    that follow it run together, all but the last of them, which stays in flight.
    """
    recorder.began(scheduler)
    arrivals = arrivals_of(trace, closed)
    flight: Flight | None = None
    now = 0
    arrivals.receive(now, scheduler, recorder)
    while horizon_as is None or now < horizon_as:
        if flight is None and (plan := scheduler.schedule()):
            flight = _take_off(scheduler, plan, 1)
        following = scheduler.schedule() if flight else None
        if now >= recorder.next_sample_as:
            recorder.sample(now, scheduler)
        until = recorder.next_sample_as
        if flight is None:
            if arrivals.next_as == NEVER:
                break
            until = min(arrivals.next_as, until)
            done = yield Sleep(until if horizon_as is None else min(until, horizon_as))
            now = done.now_as
            arrivals.receive(now, scheduler, recorder)
            continue
        if arrivals.next_as < until and scheduler.takes_arrivals():
            until = arrivals.next_as
        if horizon_as is not None and horizon_as < until:
            until = horizon_as
        plan, first, finished = flight
        if following and _continues(plan, following):
            plan = plan._replace(max_steps=following.max_steps)
        done = yield Execute(plan, until)
        flight = _take_off(scheduler, following, done.steps) if following else None
        arrivals.receive(done.now_as, scheduler, recorder)
        recorder.stepped(now, plan, done, scheduler)
        now = done.now_as
        scheduler.depart(finished)
        if first or finished:
            recorder.completed(now, first, finished)
            if finished:
                arrivals.answered(now, finished)
                arrivals.receive(now, scheduler, recorder)
    recorder.ended(scheduler, _awaiting(scheduler, flight) if flight else ())


def _take_off(scheduler: Scheduler, plan: StepPlan, steps: int) -> Flight:
    """So many repetitions of the plan are decided: the last is in flight, the others have run."""
    scheduler.advance(steps)
    before = steps - 1
    last = plan._replace(
        step=plan.step + before,
        max_steps=1,
        context_tokens=plan.context_tokens + before * plan.decodes,
        read_bytes=plan.read_bytes + before * plan.read_growth_bytes,
        longest_context=plan.longest_context + before,
    )
    return Flight(last, *scheduler.complete(plan))


def _awaiting(scheduler: Scheduler, flight: Flight) -> set[int]:
    """Requests that the step in flight would give a token."""
    tick = scheduler.manager.tick
    decoding = {i for i, seq in scheduler.running.items() if 0 <= seq.joined_tick < tick}
    prefilled = {chunk.request for chunk in flight.plan.chunks if chunk.last}
    return decoding | prefilled | {seq.index for seq in flight.finished}


def _continues(plan: StepPlan, following: StepPlan) -> bool:
    """Whether the following plan is the same batch, a token longer each."""
    changed = plan.chunks or following.chunks or following.finished
    return not (changed or plan.preempted or following.preempted) and (
        following.decodes,
        following.context_tokens,
        following.read_bytes,
        following.read_growth_bytes,
    ) == (
        plan.decodes,
        plan.context_tokens + plan.decodes,
        plan.read_bytes + plan.read_growth_bytes,
        plan.read_growth_bytes,
    )
