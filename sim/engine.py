"""THE loop: arrivals in, plans out. It knows neither a clock nor a device.

It is a generator of effects. A driver carries each out, in simulated or in real time, and sends
back what the clock says, so prediction and measurement make their decisions here, both of them.
"""

from collections.abc import Generator

from sim.plan import Done, Execute, Sleep, from_fields
from sim.record import Recorder
from sim.scheduler import Scheduler
from sim.sequence import Sequence
from workloads.schema import Trace

AS_PER_NS = 10**9
NEVER = 2**127  # later than any clock will say

make_execute = from_fields(Execute)

Effects = Generator[Execute | Sleep, Done, None]


def serve(
    trace: Trace, scheduler: Scheduler, recorder: Recorder, horizon_as: int | None = None
) -> Effects:
    """Serve the trace's requests until all have left, or until the horizon.

    Arrivals are taken to the nanosecond. A request that can never fit is refused on arrival and
    named; one whose output can't fit whole gets what fits.
    """
    arrivals = _Arrivals(trace)
    schedule, advance, complete = scheduler.schedule, scheduler.advance, scheduler.complete
    stepped, completed = recorder.stepped, recorder.completed
    takes_arrivals = scheduler.takes_arrivals
    now, sample_as = 0, recorder.next_sample_as
    arrival_as = arrivals.next_as
    while horizon_as is None or now < horizon_as:
        if arrival_as <= now:
            arrival_as = arrivals.take_until(now, scheduler, recorder)
        plan = schedule()
        if now >= sample_as:
            recorder.sample(now, scheduler)
            sample_as = recorder.next_sample_as
        until = sample_as
        if plan is None:
            if arrival_as == NEVER:
                break
            done = yield Sleep(min(arrival_as, until))
            now = done.now_as
            continue
        if arrival_as < until and takes_arrivals():
            until = arrival_as
        done = yield make_execute((plan, until))
        end, steps, first_as, growth_as = done
        if steps > 1 and arrival_as < end:
            # Whoever came before the last step began is seen in it, and so in the record.
            last_as = end - first_as - (steps - 1) * growth_as
            arrival_as = arrivals.take_until(last_as, scheduler, recorder)
        advance(steps)
        stepped(now, plan, done, scheduler)
        now = end
        first, finished = complete(plan)
        if first or finished:
            completed(now, first, finished)
    recorder.ended(now, scheduler)


class _Arrivals:
    """The trace's rows, one at a time."""

    def __init__(self, trace: Trace) -> None:
        self._ns: list[int] = (trace.arrival_s * 1e9).round().astype("int64").tolist()
        self._prompts: list[int] = trace.prompt_tokens.tolist()
        self._outputs: list[int] = trace.output_tokens.tolist()
        self._next = 0
        self.next_as: int = self._ns[0] * AS_PER_NS if self._ns else NEVER

    def take_until(self, now_as: int, scheduler: Scheduler, recorder: Recorder) -> int:
        """Queue or refuse all that arrive by then; the instant of the next arrival."""
        while self.next_as <= now_as:
            seq = self.take(scheduler)
            if seq.output:
                scheduler.waiting.append(seq)
            else:
                recorder.refused(seq)
        return self.next_as

    def take(self, scheduler: Scheduler) -> Sequence:
        """The next arrival, with the output it will get (0: refused)."""
        row = self._next
        prompt = self._prompts[row]
        output = scheduler.servable(prompt, self._outputs[row])
        seq = Sequence(row, self.next_as, prompt, output)
        self._next = row + 1
        self.next_as = self._ns[row + 1] * AS_PER_NS if row + 1 < len(self._ns) else NEVER
        return seq
