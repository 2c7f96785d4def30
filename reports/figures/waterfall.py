"""Where the time of the p50, p90 and p99 request went: queued, prefill, decode, preempted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from reports.formats import counted
from reports.language import tr
from reports.load import Run, optional
from reports.theme import axis, category_axis, figure
from workloads.spool import finite, parts

BAR = 26  # pixels of height a request
PARTS = {
    "queued": ("#7CC4EC", "#16202B"),
    "prefill": ("#8F6526", "#FFFFFF"),
    "decode": ("#2F6F73", "#FFFFFF"),
    "preempted": ("#C8461E", "#FFFFFF"),
    "recomputing": ("#E69F00", "#16202B"),
}
PERCENTILES = (50, 90, 99)


class Life(NamedTuple):
    """One request of a run; times in s."""

    name: str
    request: int
    queued: float
    prefill: float
    decode: float
    preempted: float  # after the first token
    recomputing: float
    preemptions: int
    recomputed_tokens: int


def lives(run: Run) -> list[Life]:
    """The requests at the percentiles of end-to-end latency (nearest rank), where starts are
    known."""
    table = run.requests
    ordered = finite(len(table["finish_s"]), _latencies(run))
    count = len(ordered)
    if not count:
        return []
    ordered.sort()
    found = []
    for q in PERCENTILES:
        rank = max(int(np.ceil(q / 100 * count)) - 1, 0)
        row = _row(run, ordered[rank], rank - int(np.searchsorted(ordered, ordered[rank])))
        start, first = table["first_scheduled_s"][row], table["first_token_s"][row]
        away = float(optional(run, "preempted_s")[row])
        redone = float(optional(run, "recomputing_s")[row])
        found.append(
            Life(
                f"p{q}",
                int(table["request_id"][row]),
                float(start - table["arrival_s"][row]),
                float(first - start),
                float(table["finish_s"][row] - first) - away - redone,
                away,
                redone,
                int(optional(run, "preemptions")[row]),
                int(optional(run, "recomputed_tokens")[row]),
            )
        )
    return found


def _latencies(run: Run) -> Iterator[NDArray[np.float64]]:
    """End-to-end latency in s of every request, some at a time; NaN where no start is known."""
    for end_s, arrival_s, start_s in parts(
        run.requests, "finish_s", "arrival_s", "first_scheduled_s"
    ):
        yield np.where(np.isfinite(start_s), end_s - arrival_s, np.nan)


def _row(run: Run, latency_s: float, before: int) -> int:
    """The request of this latency that so many others of the same come before."""
    start = 0
    for part in _latencies(run):
        there = np.flatnonzero(part == latency_s)
        if before < len(there):
            return start + int(there[before])
        before -= len(there)
        start += len(part)
    raise AssertionError("there is such a request")


def waterfall(runs: Sequence[Run]) -> go.Figure:
    """A bar a request; what a preempted one lost is in its hover and in the table below."""
    rows = [(run.label, life) for run in runs for life in lives(run)]
    labels = [f"{label} · {life.name}" for label, life in rows]
    fig = figure(
        len(rows) * BAR + 56,
        barmode="stack",
        bargap=0.25,
        margin={"l": 12, "r": 16, "t": 4, "b": 48},
        xaxis=axis(tr("time since its arrival (s)"), rangemode="tozero", hoverformat=",.4~g"),
        yaxis=category_axis(),
    )
    for part, (color, _) in PARTS.items():
        fig.add_bar(
            y=labels,
            x=[getattr(life, part) for _, life in rows],
            orientation="h",
            name=tr(part),
            marker={"color": color, "line": {"width": 0}},
            customdata=[counted(life.preemptions, "preemption") for _, life in rows],
            hovertemplate=f"%{{y}}<br>{tr(part)}: %{{x:,.4~g}} s<br>%{{customdata}}<extra></extra>",
        )
    return fig
