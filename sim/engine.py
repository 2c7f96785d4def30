"""THE loop: arrivals in, plans out. It knows neither a clock nor a device.

It is a generator of effects. A driver carries each out, in simulated or in real time, and sends
back what the clock says, so prediction and measurement make their decisions here, both of them.
"""

from collections.abc import Generator, Iterator
from itertools import pairwise

from sim.plan import Done, Execute, Sleep, from_fields
from sim.record import Recorder
from sim.scheduler import Scheduler
from sim.sequence import Sequence
from workloads.schema import PrefixBlocks, Trace

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
    recorder.began(scheduler)
    arrivals = Arrivals(trace)
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
            done = yield Sleep(min(arrivals.next_as, until))
            now = done.now_as
            arrivals.receive(now, scheduler, recorder)
            continue
        if arrivals.next_as < until and takes_arrivals():
            until = arrivals.next_as
        if horizon_as is not None and horizon_as < until:
            until = horizon_as
        done = yield make_execute((plan, until))
        end, steps, _, _ = done
        advance(steps)
        if arrivals.next_as <= end:
            arrivals.receive(end, scheduler, recorder)
        stepped(now, plan, done, scheduler)
        now = end
        first, finished = complete(plan)
        if first or finished:
            completed(now, first, finished)
    recorder.ended(now, scheduler)


class Arrivals:
    """The trace's rows, one at a time."""

    def __init__(self, trace: Trace) -> None:
        self._ns: list[int] = (trace.arrival_s * 1e9).round().astype("int64").tolist()
        self._prompts: list[int] = trace.prompt_tokens.tolist()
        self._outputs: list[int] = trace.output_tokens.tolist()
        self._blocks = None if trace.prefix is None else _prompt_blocks(trace.prefix)
        self._next = 0
        self.next_as: int = self._ns[0] * AS_PER_NS if self._ns else NEVER

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        """Queue or refuse all that have arrived by now."""
        while self.next_as <= now:
            row = self._next
            prompt = self._prompts[row]
            prefix = None if self._blocks is None else next(self._blocks)
            if output := scheduler.servable(prompt, self._outputs[row]):
                scheduler.waiting.append(Sequence(row, self.next_as, prompt, output, prefix))
            else:
                recorder.refused(row)
            self._next = row + 1
            self.next_as = self._ns[row + 1] * AS_PER_NS if row + 1 < len(self._ns) else NEVER


def _prompt_blocks(prefix: PrefixBlocks) -> Iterator[tuple[int, list[int]]]:
    """Each request's published block size and ids."""
    for start, end in pairwise(prefix.offsets.tolist()):
        yield prefix.block_tokens, prefix.ids[start:end].tolist()
