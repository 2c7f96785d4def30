"""Who asks, from options: users and think times as people write them."""

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np

from sim.engine.closed_loop import ClosedLoop
from sim.units import NANOSECONDS, parse_quantity
from workloads.arrivals import parse_arrivals, rate_note
from workloads.errors import InputError
from workloads.schema import Trace, TraceLike
from workloads.transform import noted

if TYPE_CHECKING:
    from sim.run.options import RunOptions

Replay = Literal["answers", "stamps"]

LONGEST_THINK_S = 1e9
MOST_USERS = 10**7
MOST_REPLICAS = 1024


def closed_loop(options: "RunOptions") -> ClosedLoop | None:
    """The closed loop that `concurrency`, or `users` and `think_time`, ask for; None for neither.

    Raises InputError where they contradict each other or make no sense.
    """
    users = options.users if options.concurrency is None else options.concurrency
    if options.users is not None and options.concurrency is not None:
        raise InputError("--users: says --concurrency with think times, expected one of them")
    if users is None:
        if options.think_time is not None:
            raise InputError("--think-time: nobody thinks in an open loop, expected --users N")
        return None
    name = "--users" if options.concurrency is None else "--concurrency"
    if not 1 <= users <= MOST_USERS:
        raise InputError(f"{name} {users}: expected a whole number from 1 to {MOST_USERS:,}")
    if options.concurrency is not None and options.think_time is not None:
        raise InputError("--think-time: expected --users N beside it, not --concurrency")
    think_s, exponential = parse_think_time(options.think_time or "0s")
    if options.request_rate is not None and options.concurrency is None:
        raise InputError("--request-rate: users ask when they are ready, expected no rate")
    paced = options.request_rate is not None
    return ClosedLoop(users, think_s, exponential, paced, options.seed)


def parse_think_time(text: str) -> tuple[float, bool]:
    """Seconds and whether they are the mean of an exponential law: `10s`, `exponential:500ms`."""
    kind, colon, rest = text.strip().rpartition(":")
    seconds = parse_quantity(rest, NANOSECONDS, "--think-time") / 1e9
    if (colon and kind != "exponential") or seconds > LONGEST_THINK_S:
        raise InputError(f"--think-time={text}: expected a time such as 10s, or exponential:10s")
    return seconds, bool(colon) and seconds > 0


def checked_seed(seed: int) -> int:
    """The seed. Raises InputError for one that no generator takes."""
    if seed < 0:
        raise InputError(f"--seed {seed}: expected a whole number of 0 or more")
    return seed


def replayed(trace: Trace, options: "RunOptions") -> Trace:
    """The trace, as stamped where that is asked for. Raises InputError where it makes no sense."""
    if options.replay == "answers":
        return trace
    if options.replay == "both":
        raise InputError("--replay both: makes two runs, expected answers or stamps for one")
    if trace.turns is None:
        raise InputError(
            f"--replay: {trace.name} has no sessions, it is replayed as stamped anyway"
        )
    if options.users is not None:
        raise InputError("--replay stamps: users ask when they are ready, expected no --users")
    return replace(trace, turns=None)


def redrawn(trace: Trace, arrivals: str, request_rate: float | None, seed: int) -> Trace:
    """The trace's requests in its order, at arrivals drawn anew.

    Of one seed, gaps at two rates are the same numbers in other units: common random numbers, so
    that what differs between them is the rate. Raises InputError for what makes no sense.
    """
    if request_rate is None or not 0 < request_rate < inf:
        raise InputError("--arrivals: are drawn at a rate, expected a --request-rate above 0")
    if trace.turns is not None:
        raise InputError("--arrivals: turns follow answers, expected a trace without sessions")
    try:
        process = parse_arrivals(arrivals)
    except InputError as error:
        raise InputError(f"--arrivals {error}") from None
    drawn = process(len(trace), request_rate, np.random.default_rng(seed))
    note = f"arrivals drawn: {arrivals} at {request_rate:g} requests/s, seed {seed}"
    redrawn = replace(trace, arrival_s=drawn, provenance=noted(trace, note))
    unlike = rate_note(arrivals, request_rate, drawn)
    return redrawn if unlike is None else replace(redrawn, provenance=noted(redrawn, unlike))


def replay_of(trace: Trace, options: "RunOptions") -> Replay | None:
    """How a trace with sessions is replayed; None without sessions, and for users of their own."""
    if trace.turns is None or options.users is not None or options.concurrency is not None:
        return None
    return "stamps" if options.replay == "stamps" else "answers"


def each_replay(options: "RunOptions") -> list["RunOptions"]:
    """The options of each run that `--replay` asks for. Raises InputError for users beside both."""
    if options.replay != "both":
        return [options]
    if options.users is not None or options.concurrency is not None:
        raise InputError("--replay both: stamps have no users, expected no --users, --concurrency")
    return [replace(options, replay="stamps"), replace(options, replay="answers")]


def replicas_of(options: "RunOptions") -> int:
    """How many. Raises InputError for none or too many."""
    if not 1 <= options.replicas <= MOST_REPLICAS:
        raise InputError(
            f"--replicas {options.replicas}: expected a whole number from 1 to {MOST_REPLICAS:,}"
        )
    return options.replicas


def given_trace(trace: TraceLike, options: "RunOptions") -> Trace:
    """The trace, read if it isn't yet."""
    from workloads import read_trace  # late: readers are many

    if not isinstance(trace, Trace):
        return read_trace(trace, columns=options.columns, prefix_scope=options.prefix_scope)
    if options.columns is not None or options.prefix_scope != "recorded":
        raise InputError("--columns, --prefix-scope: the trace is read already, expected a file")
    return trace


def requests_of(requests: Trace, options: "RunOptions") -> Trace:
    """The trace's requests as the options have them."""
    from workloads import transform

    if options.snapshot_start:
        requests = transform.snapshot(requests, options.seed)
    requests = replayed(requests, options)
    if options.first is not None:
        if options.first < 1:
            raise InputError(f"--first {options.first}: expected a whole number of 1 or more")
        requests = transform.first(requests, options.first)
    if options.arrivals is not None:
        requests = redrawn(requests, options.arrivals, options.request_rate, options.seed)
    elif options.request_rate is not None:
        requests = transform.scale_rate(requests, options.request_rate)
    return requests if options.samples == 1 else transform.sample(requests, options.samples)
