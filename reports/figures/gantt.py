"""The running set: when requests waited and ran, a row a request, an even sample of them."""

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from reports.language import tr
from reports.load import Columns, Run
from reports.theme import axis, figure
from workloads.spool import gathered, parts

ROWS = 120
"""Requests shown; of more, every n-th by arrival."""


def gantt(run: Run) -> go.Figure:
    """Requests from top to bottom by arrival: queued, prefilling and decoding."""
    table = run.requests
    known = _drawn(table)
    fig = figure(
        360,
        margin={"l": 60, "r": 12, "t": 8, "b": 48},
        xaxis=axis(tr("time since the first arrival (s)"), hoverformat=",.4~g"),
        yaxis=axis(tr("request (every n-th, by arrival)"), range=[len(known) - 0.5, -0.5]),
    )
    stamps = [table[name][known] for name in
              ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")]  # fmt: skip
    colors = {"queued": "#7CC4EC", "prefill": "#E69F00", "decode": "#2F6F73"}
    for (part, color), start, end in zip(colors.items(), stamps, stamps[1:], strict=False):
        fig.add_bar(
            y=np.arange(len(known)),
            base=start,
            x=end - start,
            orientation="h",
            name=tr(part),
            marker={"color": color, "line": {"width": 0}},
            hovertemplate=f"{tr(part)}: %{{x:,.4~g}} s<extra></extra>",
        )
    fig.update_layout(barmode="overlay", bargap=0.2)
    return fig


def _drawn(table: Columns) -> NDArray[np.int64]:
    """Rows of at most ROWS requests that started and ended, by arrival."""
    ended = [
        np.isfinite(end_s) & np.isfinite(start_s)
        for end_s, start_s in parts(table, "finish_s", "first_scheduled_s")
    ]
    known: NDArray[np.int64] = np.flatnonzero(np.concatenate([np.empty(0, np.bool_), *ended]))
    came = zip(parts(table, "arrival_s"), ended, strict=True)
    arrival = gathered(len(known), (arrival_s[rows] for (arrival_s,), rows in came))
    if (arrival[1:] < arrival[:-1]).any():
        known = known[np.argsort(arrival, kind="stable")]
    if len(known) > ROWS:
        known = known[np.linspace(0, len(known) - 1, ROWS).round().astype(np.int64)]
    return known
