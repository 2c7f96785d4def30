"""Requests at once against their length: a line a policy or a type of KV, both axes logarithmic."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.language import tr
from reports.run_json import Capacity
from reports.table import Table
from reports.theme import axis, figure, stroke


def capacity(curves: Sequence[Capacity]) -> tuple[go.Figure, Table]:
    """How many requests of each length the KV budget holds, and the same as a table."""
    lengths = sorted({tokens for one in curves for tokens, _ in one.points})
    fig = figure(
        360,
        margin={"l": 64, "r": 20, "t": 12, "b": 52},
        xaxis=axis(
            tr("tokens of each request, prompt and output"),
            type="log",
            tickvals=lengths,
            ticktext=[f"{tokens:,}" for tokens in lengths],
        ),
        yaxis=axis(tr("requests at once"), type="log", dtick="D2"),
    )
    for i, one in enumerate(curves):
        known = [(tokens, requests) for tokens, requests in one.points if requests]
        fig.add_scatter(
            x=[tokens for tokens, _ in known],
            y=[requests for _, requests in known],
            name=one.label,
            mode="lines+markers",
            line={"color": stroke(i).color, "dash": stroke(i).dash, "width": 1.8},
            meta=one.label,
            hovertemplate="%{y:,} × %{x:,} (%{meta})<extra></extra>",
        )
    found = [dict(one.points) for one in curves]
    rows = [
        (f"{tokens:,}", *("–" if tokens not in one else f"{one[tokens]:,}" for one in found))
        for tokens in lengths
    ]
    return fig, Table((tr("tokens"), *(one.label for one in curves)), tuple(rows))
