"""THE loop: arrivals in, plans out. It knows neither a clock nor a device.

It is a generator of effects. A driver carries each out, in simulated or in real time, and sends
back what the clock says, so prediction and measurement make their decisions here, both of them.
"""

from collections.abc import Generator, Iterator
from itertools import chain, pairwise, repeat

from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.plan import Done, Execute, Sleep, from_fields
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
        if steps > 1:
            advance(steps)
        if arrivals.next_as <= end:
            arrivals.receive(end, scheduler, recorder)
        stepped(now, plan, done, scheduler)
        now = end
        first, finished = complete(plan)
        if first or finished:
            completed(now, first, finished)
    recorder.ended(now, scheduler)


Row = tuple[int, int, int, int, tuple[int, list[int]] | None]  # with the arrival in nanoseconds


class Arrivals:
    """The trace's rows, one at a time."""

    def __init__(self, trace: Trace) -> None:
        self._rows = chain.from_iterable(_slices(trace))
        self._next = next(self._rows, None)
        self.next_as = self._next[1] * AS_PER_NS if self._next else NEVER

    def receive(self, now: int, scheduler: Scheduler, recorder: Recorder) -> None:
        """Queue or refuse all that have arrived by now."""
        coming, arrival, rows = self._next, self.next_as, self._rows
        while coming and arrival <= now:
            row, _, prompt, wanted, prefix = coming
            if output := scheduler.servable(prompt, wanted):
                scheduler.waiting.append(Sequence(row, arrival, prompt, output, prefix))
            else:
                recorder.refused(row)
            coming = next(rows, None)
            arrival = coming[1] * AS_PER_NS if coming else NEVER
        self._next, self.next_as = coming, arrival


def _slices(trace: Trace) -> Iterator[Iterator[Row]]:
    """Rows by the thousand: a long trace is never there as Python's numbers all at once."""
    blocks = repeat(None) if trace.prefix is None else _prompt_blocks(trace.prefix)
    for start in range(0, len(trace), 1000):
        part = slice(start, start + 1000)
        arrivals_ns = (trace.arrival_s[part] * 1e9).round().astype("int64").tolist()
        prompts, outputs = trace.prompt_tokens[part].tolist(), trace.output_tokens[part].tolist()
        yield zip(range(start, len(trace)), arrivals_ns, prompts, outputs, blocks, strict=False)


def _prompt_blocks(prefix: PrefixBlocks) -> Iterator[tuple[int, list[int]]]:
    """Each request's published block size and ids."""
    for start, end in pairwise(prefix.offsets.tolist()):
        yield prefix.block_tokens, prefix.ids[start:end].tolist()
