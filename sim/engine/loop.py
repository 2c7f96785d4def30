"""THE loop: arrivals in, plans out. It knows neither a clock nor a device.

It is a generator of effects. A driver carries each out, in simulated or in real time, and sends
back what the clock says, so prediction and measurement make their decisions here, both of them.
"""

from collections.abc import Generator

from sim.engine.arrivals import arrivals_of
from sim.engine.closed_loop import ClosedLoop
from sim.engine.record import Recorder
from sim.engine.requests import NEVER
from sim.engine.scheduler import Scheduler
from sim.plan import Done, Execute, Sleep, from_fields
from workloads.schema import Trace

make_execute = from_fields(Execute)

Effects = Generator[Execute | Sleep, Done, None]


def serve(
    trace: Trace,
    scheduler: Scheduler,
    recorder: Recorder,
    horizon_as: int | None = None,
    closed: ClosedLoop | None = None,
) -> Effects:
    """Serve the trace's requests until all have left, or until the horizon.

    They come when `sim.engine.arrivals` says. A request that can never fit is refused on arrival
    and named; one whose output can't fit whole gets what fits.
    """
    recorder.began(scheduler)
    arrivals = arrivals_of(trace, closed)
    schedule, advance, complete = scheduler.schedule, scheduler.advance, scheduler.complete
    stepped, completed = recorder.stepped, recorder.completed
    takes_arrivals = scheduler.takes_arrivals
    now, sample_as = 0, recorder.next_sample_as
    arrivals.receive(now, scheduler, recorder)
    while horizon_as is None or now < horizon_as:
        plan = schedule()
        if now >= sample_as:
            recorder.sample(now, scheduler)
            sample_as = recorder.next_sample_as
        until = sample_as
        if plan is None:
            if arrivals.next_as == NEVER:
                break
            until = min(arrivals.next_as, until)
            done = yield Sleep(until if horizon_as is None else min(until, horizon_as))
            now = done.now_as
            arrivals.receive(now, scheduler, recorder)
            continue
        if arrivals.next_as < until and takes_arrivals():
            until = arrivals.next_as
        if horizon_as is not None and horizon_as < until:
            until = horizon_as
        done = yield make_execute((plan, until))
        end, steps, _, _ = done
        if steps > 1:
            advance(steps)
        if arrivals.next_as <= end:
            arrivals.receive(end, scheduler, recorder)
        stepped(now, plan, done, scheduler)
        now = end
        first, finished = complete(plan)
        if first or finished:
            completed(now, first, finished)
            if finished:
                arrivals.answered(now, finished)
                if arrivals.next_as <= now:
                    arrivals.receive(now, scheduler, recorder)
    recorder.ended(scheduler)
