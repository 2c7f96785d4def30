"""Where the time of the p50, p90 and p99 request went: queued, prefill, decode, preempted."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from reports.formats import counted
from reports.language import tr
from reports.load import Run, optional
from reports.theme import axis, category_axis, figure

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
    latency = table["finish_s"] - table["arrival_s"]
    known = np.flatnonzero(np.isfinite(latency) & np.isfinite(table["first_scheduled_s"]))
    if not len(known):
        return []
    ordered = known[np.argsort(latency[known], kind="stable")]
    found = []
    for q in PERCENTILES:
        row = int(ordered[max(int(np.ceil(q / 100 * len(ordered))) - 1, 0)])
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
