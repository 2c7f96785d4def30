"""THE loop: arrivals in, plans out. It knows neither a clock nor a device.

It is a generator of effects. A driver carries each out, in simulated or in real time, and sends
back what the clock says, so prediction and measurement make their decisions here, both of them.
"""

from collections.abc import Generator

from sim.engine.arrivals import Arrivals, arrivals_of
from sim.engine.closed_loop import ClosedLoop
from sim.engine.record import Recorder
from sim.engine.requests import NEVER
from sim.engine.scheduler import Scheduler
from sim.plan import Done, Execute, Sleep, StepPlan, from_fields
from workloads.schema import Trace

make_execute = from_fields(Execute)

Effects = Generator[Execute | Sleep, Done, None]

END, IDLE, WORK = range(3)


class Loop:
    """Turns of an engine that plans a step when the one before it has ended."""

    __slots__ = ("arrivals", "horizon_as", "now_as", "plan", "recorder", "scheduler", "until_as")

    def __init__(
        self, arrivals: Arrivals, scheduler: Scheduler, recorder: Recorder, horizon_as: int | None
    ) -> None:
        self.arrivals = arrivals
        self.scheduler = scheduler
        self.recorder = recorder
        self.horizon_as = NEVER if horizon_as is None else horizon_as
        self.now_as = 0
        self.until_as = 0  # when to stop, whatever is done
        self.plan: StepPlan | None = None
        arrivals.receive(0, scheduler, recorder)

    def turn(self) -> int:
        """Whether the next thing is a step (`plan`), to wait, or nothing any more."""
        now = self.now_as
        if now >= self.horizon_as:
            return END
        planned = self.plan = self.scheduler.schedule()
        recorder = self.recorder
        if now >= recorder.next_sample_as:
            recorder.sample(now, self.scheduler)
        until = recorder.next_sample_as
        coming = self.arrivals.next_as
        if not planned:
            if coming == NEVER:
                return END
            self.until_as = min(coming, until, self.horizon_as)
            return IDLE
        if coming < until and self.scheduler.takes_arrivals():
            until = coming
        self.until_as = min(until, self.horizon_as)
        return WORK

    def woke(self, now: int) -> None:
        """The wait is over."""
        self.now_as = now
        self.arrivals.receive(now, self.scheduler, self.recorder)

    def ran(self, done: Done) -> None:
        """The step, or some of its repetitions, has run."""
        scheduler, recorder, arrivals, plan = (
            self.scheduler,
            self.recorder,
            self.arrivals,
            self.plan,
        )
        assert plan, "a step was planned"
        end, steps, _, _ = done
        if steps > 1:
            scheduler.advance(steps)
        if arrivals.next_as <= end:
            arrivals.receive(end, scheduler, recorder)
        recorder.stepped(self.now_as, plan, done, scheduler)
        self.now_as = end
        first, finished = scheduler.complete(plan)
        if first or finished:
            recorder.completed(end, first, finished)
            if finished:
                arrivals.answered(end, finished)
                if arrivals.next_as <= end:
                    arrivals.receive(end, scheduler, recorder)


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
    loop = Loop(arrivals_of(trace, closed), scheduler, recorder, horizon_as)
    turn, ran = loop.turn, loop.ran
    while next_thing := turn():
        if next_thing == WORK:
            ran((yield make_execute((loop.plan, loop.until_as))))
        else:
            done = yield Sleep(loop.until_as)
            loop.woke(done.now_as)
    recorder.ended(scheduler)
