"""What happened, as columns: one row a request, one row an event, one row a sample."""

from array import array
from collections.abc import Callable, Container, Mapping
from functools import partial
from itertools import chain
from math import nan
from struct import Struct
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reports.files import MEMORY, STRETCHES
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S, Done, StepPlan
from sim.policy.answers import check_columns, checked_tally
from sim.policy.counting.stretches import held
from sim.policy.manager import Manager
from sim.sequence import Sequence
from workloads.schema import Trace

STATUSES = ("finished", "truncated", "refused", "unfinished")
"""A truncated request finished with fewer tokens than it asked for."""
FINISHED, TRUNCATED, REFUSED, UNFINISHED = range(4)

STEP_TIMES = ("start_s", "end_s", "first_step_s", "step_growth_s")
EVENT_COUNTS = (
    "step",
    "steps",
    "decodes",
    "context_tokens",
    "read_bytes",
    "prefill_tokens",
    "running",
    "waiting",
    "admitted",
    "preempted",
    "swap_out_bytes",
    "swap_in_bytes",
)
QUEUES = ("running", "waiting")
USES = (*(f"{name}_bytes" for name in MEMORY), "cached_bytes")  # these part of the free ones
STEP_COUNTS = (*EVENT_COUNTS, *USES)
SAMPLE_COUNTS = (*QUEUES, *USES)

HOLES = 1 << 17
"""Numbers noted of free addresses before they are counted by stretch: by column it costs little."""

Column = NDArray[np.float64] | NDArray[np.int64]


class Log(NamedTuple):
    """Three tables, as columns by name. Times in seconds from the first arrival's zero."""

    requests: Mapping[str, Column]
    steps: Mapping[str, Column]
    timeline: Mapping[str, Column]
    resume_gaps_s: NDArray[np.float64]
    """Between tokens of one request, where a preemption fell between them."""
    end_s: float
    """End of the last step; 0 if there was none."""
    resumed_s: NDArray[np.float64] = np.empty(0)
    """When each of `resume_gaps_s` ended."""
    held: NDArray[np.uint8] = np.empty((0, STRETCHES), np.uint8)
    """Of each sample (rows of `timeline`), how much of each stretch of the addresses is held, in
    255ths; no rows where memory has no addresses."""
    interval_s: float = 0.0
    """Between the instants that samples are for; 0 where each stands for itself alone. A step that
    lasts longer than this has one sample, for all instants within it."""


class Sink(Protocol):
    """Where the tables of requests and events go, some rows at a time and in order."""

    def add(self, table: str, part: Mapping[str, Column]) -> None:
        """Further rows of `requests` or `steps`; their arrays are the sink's from now on."""

    def whole(self, table: str) -> Mapping[str, Column]:
        """The columns of all rows added. Nothing is added to that table any more."""


ROWS_AT_ONCE = 1 << 16
"""Of a table, where it is handed on or looked at by parts."""


class Recorder:
    """Collects flat arrays: memory grows with requests and events, not with tokens.

    Samples are taken every `interval_s` of the engine's time, in the first step that begins at or
    after the instant, as a monitoring system would scrape an engine.
    """

    def __init__(
        self,
        trace: Trace,
        interval_s: float,
        told: Callable[[float], None] | None = None,
        sink: Sink | None = None,
    ) -> None:
        """`told` hears with each sample what share of the requests has left.

        With a `sink` events go there while the run goes on, and `log` may be called once.
        """
        requests = len(trace)
        self._trace = trace
        self._sink = sink
        self._told = told
        self._gone = 0
        self._interval_as = round(interval_s * AS_PER_S)
        self.next_sample_as = 0
        self._scheduled = array("d", [nan]) * requests
        self._first = array("d", [nan]) * requests
        self._finish = array("d", [nan]) * requests
        self._asked: array[float] | None = None  # in a closed loop; else the trace's own stamps
        self._refused: list[int] = []
        self._generated = array("q", [0]) * requests
        self._preemptions = array("q", [0]) * requests
        self._recomputed = array("q", [0]) * requests
        self._cached = array("q", [0]) * requests
        self._swapped = array("q", [0]) * requests
        self._events = bytearray()
        self._sample_times = array("d")
        self._sample_counts = array("q")
        self._preempted_s: dict[int, float] = {}
        self._resume_gaps, self._resumed = array("d"), array("d")
        self._away_s: dict[int, float] = {}  # since when, of requests that had streamed tokens
        self._back_s: dict[int, float] = {}
        self._away = array("d", [0.0]) * requests
        self._redone = array("d", [0.0]) * requests
        self._hole_counts, self._holes = array("q"), array("q")
        self._held = bytearray()
        self._now_as, self._now_s = 0, 0.0  # the end of the latest event

    def began(self, scheduler: Scheduler) -> None:
        """A run begins. Rows keep the manager's tally, which `log` turns into bytes by column."""
        manager = self._manager = scheduler.manager
        self._kept = partial(checked_tally, manager) if manager.watched else manager.tally
        self._recomputes = scheduler.limits.pressure.preemption == "recompute"
        self._addresses = self._manager.addresses
        self._tally = tally_names(self._manager)
        # An event as bytes: packing them takes half the time of extending an array by them.
        counts = len(EVENT_COUNTS) + len(self._tally)
        row = Struct(f"<{len(STEP_TIMES)}d{counts}q")
        self._pack_event, self._event_bytes = row.pack, row.size

    def asked(self, index: int, arrival_as: int) -> None:
        """A request of a closed loop arrives."""
        if self._asked is None:
            self._asked = array("d", [nan]) * len(self._trace)
        self._asked[index] = arrival_as / AS_PER_S

    def refused(self, index: int) -> None:
        self._refused.append(index)

    def stepped(self, start_as: int, plan: StepPlan, done: Done, scheduler: Scheduler) -> None:
        """One or more steps ended. Memory is as in the last one, the queue as after it."""
        now_as, steps, first_as, growth_as = done
        # fmt: off
        (step, _, decodes, context, read_bytes, _, prefilled,
         chunks, admitted, preempted, _, swap_out, swap_in, _) = plan
        # fmt: on
        start_s = self._now_s if start_as == self._now_as else start_as / AS_PER_S
        end_s = self._now_s = now_as / AS_PER_S
        self._now_as = now_as
        for index in admitted:
            if self._scheduled[index] != self._scheduled[index]:  # not resumed after a preemption
                self._scheduled[index] = start_s
            elif index in self._away_s:
                self._away[index] += start_s - self._away_s.pop(index)
                if self._recomputes:
                    self._back_s[index] = start_s
        for index in preempted:
            if self._first[index] == self._first[index]:  # it had streamed tokens
                self._preempted_s.setdefault(index, start_s)
                self._away_s[index] = start_s
                self._redone[index] += start_s - self._back_s.pop(index, start_s)
        if self._preempted_s:
            for chunk in chunks:
                if chunk.last and chunk.request in self._preempted_s:
                    self._redone[chunk.request] += end_s - self._back_s.pop(chunk.request, end_s)
                    self._resume_gaps.append(end_s - self._preempted_s.pop(chunk.request))
                    self._resumed.append(end_s)
        event = (
            start_s,
            end_s,
            first_as / AS_PER_S,
            growth_as / AS_PER_S,
            step,
            steps,
            decodes,
            context,
            read_bytes,
            prefilled,
            len(scheduler.running),
            len(scheduler.waiting),
            len(admitted),
            len(preempted),
            swap_out,
            swap_in,
        )
        self._events += self._pack_event(*(event + self._kept()))

    def completed(self, now_as: int, first: list[Sequence], finished: list[Sequence]) -> None:
        now_s = self._now_s if now_as == self._now_as else now_as / AS_PER_S
        for seq in first:
            self._first[seq.index] = now_s
        self._gone += len(finished)
        for seq in finished:
            self._finish[seq.index] = now_s
            self._left(seq, seq.generated)

    def sample(self, now_as: int, scheduler: Scheduler) -> None:
        self.next_sample_as = (now_as // self._interval_as + 1) * self._interval_as
        self._sample_times.append(now_as / AS_PER_S)
        queues = (len(scheduler.running), len(scheduler.waiting))
        self._sample_counts.extend(queues + self._kept())
        if self._addresses:
            holes = self._manager.holes()
            self._hole_counts.append(len(holes))
            self._holes.extend(chain.from_iterable(holes))
            if len(self._holes) > HOLES:
                self._settle_holes()
        if self._told is not None:
            self._told((self._gone + len(self._refused)) / len(self._trace))
        if self._sink and len(self._events) >= ROWS_AT_ONCE * self._event_bytes:
            self._hand_on(self._sink)

    def _settle_holes(self) -> None:
        """Of the spans noted so far keep how much of each stretch was held."""
        if self._hole_counts:
            self._held += stretches(self._hole_counts, self._holes, self._addresses)
            self._hole_counts, self._holes = array("q"), array("q")

    def ended(self, scheduler: Scheduler, undelivered: Container[int] = ()) -> None:
        """The run is over; what still waits or runs stays unfinished.

        `undelivered` requests were planned one token more than has been computed.
        """
        check_tally(scheduler.manager)
        tick = scheduler.manager.tick
        for seq in scheduler.inside():
            decoded = tick - seq.joined_tick if seq.joined_tick >= 0 else 0
            self._left(seq, seq.generated + decoded - (seq.index in undelivered))

    def _left(self, seq: Sequence, generated: int) -> None:
        index = seq.index
        self._generated[index] = generated
        if seq.preemptions:
            self._preemptions[index] = seq.preemptions
            self._recomputed[index] = seq.recomputed
            self._swapped[index] = seq.swapped_bytes
        if seq.cached:
            self._cached[index] = seq.cached

    def log(self) -> Log:
        """The tables, once the run has ended."""
        self._settle_holes()
        requests: Mapping[str, Column]
        steps: Mapping[str, Column]
        if self._sink is None:
            requests, steps = self._requests(slice(None)), self._steps()
        else:
            self._hand_on(self._sink)
            for start in range(0, max(1, len(self._trace)), ROWS_AT_ONCE):
                self._sink.add("requests", self._requests(slice(start, start + ROWS_AT_ONCE)))
            requests, steps = self._sink.whole("requests"), self._sink.whole("steps")
        counts = _columns((*QUEUES, *self._tally), self._sample_counts)
        samples = _columns(("time_s",), self._sample_times) | counts
        return Log(
            requests,
            steps,
            with_uses(self._manager, samples),
            np.asarray(self._resume_gaps),
            self._now_s,
            np.asarray(self._resumed),
            np.frombuffer(self._held, np.uint8).reshape(-1, STRETCHES),
            self._interval_as / AS_PER_S,
        )

    def _hand_on(self, sink: Sink) -> None:
        """Events so far."""
        sink.add("steps", self._steps())
        self._events.clear()

    def _steps(self) -> dict[str, Column]:
        fields = [(name, "<f8") for name in STEP_TIMES]
        fields += [(name, "<i8") for name in (*EVENT_COUNTS, *self._tally)]
        table = np.frombuffer(self._events, dtype=fields)
        return with_uses(self._manager, {name: table[name].copy() for name, _ in fields})

    def _requests(self, rows: slice) -> dict[str, Column]:
        trace, first = self._trace, rows.start or 0
        arrival_s = trace.arrival_s if self._asked is None else np.asarray(self._asked)
        refused = np.zeros(len(trace), dtype=bool)
        refused[self._refused] = True
        had = {
            "first_scheduled_s": self._scheduled,
            "first_token_s": self._first,
            "finish_s": self._finish,
            "generated_tokens": self._generated,
            "preemptions": self._preemptions,
            "recomputed_tokens": self._recomputed,
            "cached_tokens": self._cached,
            "swapped_bytes": self._swapped,
            "preempted_s": self._away,
            "recomputing_s": self._redone,
        }
        return request_columns(
            first,
            {
                "arrival_s": arrival_s[rows],
                "prompt_tokens": trace.prompt_tokens[rows],
                "output_tokens": trace.output_tokens[rows],
            },
            refused[rows],
            {name: np.asarray(column)[rows] for name, column in had.items()},
        )


def request_columns(
    first: int, asked: Mapping[str, Column], refused: NDArray[np.bool_], had: Mapping[str, Column]
) -> dict[str, Column]:
    """Requests from row `first` on: what they asked for, whether they were refused, what they had.

    All columns are (n,); `had` begins with times, NaN where there was none.
    """
    ended = np.where(had["generated_tokens"] < asked["output_tokens"], TRUNCATED, FINISHED)
    status = np.where(np.isnan(had["finish_s"]), UNFINISHED, ended)
    status[refused] = REFUSED
    number = np.arange(first, first + len(refused), dtype=np.int64)
    return {"request_id": number, **asked, "status": status, **had}


def check_tally(manager: Manager) -> None:
    """What rows keep of memory must be what the manager says of it."""
    kept = manager.uses(manager.tally())
    assert kept == (*manager.memory(), manager.cached_bytes()), "a tally of something else"


def tally_names(manager: Manager) -> tuple[str, ...]:
    """Columns that stand for a manager's tally until `with_uses`."""
    return tuple(f"tally_{i}" for i in range(len(manager.tally())))


def with_uses(manager: Manager, columns: dict[str, Column]) -> dict[str, Column]:
    """The columns with bytes by use in place of tallies."""
    tally = tuple(columns.pop(name) for name in tally_names(manager))
    uses = manager.uses(tally)
    if manager.watched:
        check_columns(uses, manager.pool.capacity_bytes)
    rows = len(tally[0])
    return columns | {
        k: np.broadcast_to(v, rows).astype(np.int64) for k, v in zip(USES, uses, strict=True)
    }


def stretches(counts: ArrayLike, holes: ArrayLike, addresses: int) -> bytes:
    """What `Log.held` says of samples, each with so many of the holes; see `stretches.held`."""
    shares = held(counts, holes, addresses, STRETCHES)
    return np.rint(255 * shares).astype(np.uint8).tobytes()


def _columns(names: tuple[str, ...], rows: "array[float] | array[int]") -> dict[str, Column]:
    """Row-major values as one contiguous column a name."""
    table = np.asarray(rows).reshape(-1, len(names))
    return {name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(names)}
