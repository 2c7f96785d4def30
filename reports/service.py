"""Whether a run bears its load: offered, served, and the queue while requests arrive.

All of it from the requests' own times: how many had arrived and not been started when another one
arrived, refused ones apart. Waiting requests are *behind* where they are more than BEHIND of all
(and more than a handful), for more than a MOMENT.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reports.load import Run
from workloads.spool import ROWS, gathered, parts

BEHIND = 0.02
"""Share of all requests that may wait before a run is behind: of 1,000, 20."""

HANDFUL = 4
"""As many may wait however few the requests are."""

MOMENT = 0.01
"""Share of the span of arrivals: a run that catches up within it was never behind."""

FEW = 25
"""Fewer arrivals say nothing of a run that was stopped: where 4/5 of a load are served, it takes so
many until more than a HANDFUL wait."""


class Service(NamedTuple):
    """Rates in requests/s, times in s since the trace's start; None where nothing says."""

    offered: float | None  # None: all arrive at once
    served: float | None
    behind_from_s: float | None  # None: never behind
    caught_up_s: float | None  # None: never behind, or behind as arrivals end
    waiting_at_end: int  # when the last request arrives
    waiting_peak: int
    peak_s: float
    grows: bool  # the queue still does as arrivals end
    arrivals_end_s: float
    arrived: int = 0  # requests before the run was stopped
    too_few: bool = False  # it was, after FEW: nothing can be said of its load

    @property
    def keeps_up(self) -> bool:
        """Not behind when arrivals end."""
        return self.behind_from_s is None or self.caught_up_s is not None


def service(run: Run) -> Service:
    """What the run's requests say of its load."""
    return _service(_Key(run))


class _Key:
    """A run by identity: its tables can't be hashed, and a page asks more than once."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __hash__(self) -> int:
        return id(self.run.requests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.run.requests is other.run.requests


@lru_cache(maxsize=256)
def _service(key: _Key) -> Service:
    run = key.run
    arrival, waiting = queue(run)
    n = len(arrival)
    served = run.value("request_throughput")
    if not n:
        return Service(None, served, None, None, 0, 0, 0.0, False, 0.0)
    offered = run.requests["arrival_s"]
    if run.count("unfinished"):
        offered = offered[_before_the_end(run, offered, float(arrival[-1]))]
    few = len(offered) < min(FEW, len(run.requests["arrival_s"]))
    span = float(offered[-1] - offered[0])
    if not span:
        at_s = float(arrival[0])
        return Service(None, served, None, None, n, n, at_s, False, at_s, len(offered), few)
    counting = _counting(run, offered)
    closed = run.info.closed_loop is not None and not run.info.closed_loop.paced
    behind = (waiting > max(HANDFUL, BEHIND * n)) & (not closed)  # no more ask than are answered
    peak = int(waiting.argmax())
    since = up = None
    if behind.any():
        since = float(arrival[max(int(behind.argmax()) - 1, 0)])
        if not behind[-1]:
            up = float(arrival[n - int(behind[::-1].argmax())])
            if up - since < MOMENT * span:
                since = up = None
    before = int(waiting[np.searchsorted(arrival[:-1], offered[0] + 0.75 * span)])
    return Service(
        _rate(run, counting),
        served,
        since,
        up,
        int(waiting[-1]),
        int(waiting[peak]),
        float(arrival[peak]),
        int(waiting[-1]) > before,
        float(arrival[-1]),
        len(offered),
        few,
    )


def _rate(run: Run, counting: NDArray[Any]) -> float:
    """Requests a second: over the span of their arrivals, or up to the horizon."""
    if run.info.horizon_s is None or not run.count("unfinished"):
        return len(counting) / float(np.ptp(counting))
    warm_up = run.info.warm_up
    late = warm_up is not None and counting[0] >= warm_up.end_s
    since_s = warm_up.end_s if warm_up is not None and late else 0.0
    return len(counting) / (run.info.horizon_s - since_s)


def _before_the_end(run: Run, arrival: NDArray[Any], last_s: float) -> NDArray[np.bool_]:
    """Whether each came before the run was stopped: at its horizon, else after `last_s`."""
    stopped_s = run.info.horizon_s
    return arrival <= last_s if stopped_s is None else arrival < stopped_s


def _counting(run: Run, offered: NDArray[Any]) -> NDArray[Any]:
    """Of these arrivals those after the warm-up, as what is served is counted then.

    All of them where fewer than two instants are left, which have no rate.
    """
    if run.info.warm_up is None:
        return offered
    late = offered[offered >= run.info.warm_up.end_s]
    return late if len(late) and np.ptp(late) > 0 else offered


def queue(run: Run) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Arrivals (s) and how many earlier ones each finds waiting, refused requests left out.

    Where starts were not recorded, a first token stands for them. What arrives after a run was
    stopped is no load of it.
    """
    table = run.requests
    arrival, start = _admitted(run, "arrival_s"), _admitted(run, "first_scheduled_s")
    if np.isnan(start).all():
        start = _admitted(run, "first_token_s")
    if np.isnan(start).any():
        ends = [start, *(end for both in parts(table, "finish_s", "first_token_s") for end in both)]
        end = max(float(times[np.isfinite(times)].max(initial=-np.inf)) for times in ends)
        kept = _before_the_end(run, arrival, end)
        arrival, start = arrival[kept], start[kept]
    if not (arrival[1:] >= arrival[:-1]).all():
        order = np.argsort(arrival, kind="stable")
        arrival, start = arrival[order], start[order]
    started = start <= arrival  # itself
    start.sort()  # NaN: never, sorted last
    waiting = np.arange(len(arrival))
    for at in range(0, len(arrival), ROWS):
        rows = slice(at, at + ROWS)
        earlier = np.searchsorted(start, arrival[rows], side="right") - started[rows]
        waiting[rows] = np.maximum(waiting[rows] - earlier, 0)
    return arrival, waiting


def _admitted(run: Run, name: str) -> NDArray[np.float64]:
    """A column without refused requests."""
    rows = parts(run.requests, "status", name)
    return gathered(
        len(run.requests[name]), (values[status != "refused"] for status, values in rows)
    )
