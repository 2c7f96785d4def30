"""Load and service: requests arrived, done and waiting over time, a panel a run, one scale.

The height between arrived and done is what the engine has taken on: lines that part say that it
falls behind.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from reports.bands import spans
from reports.formats import duration
from reports.language import tr
from reports.load import Run
from reports.service import service
from reports.theme import (
    ARRIVED,
    GAP,
    MUTED,
    WAITING,
    axis,
    figure,
    panel_domain,
    panel_title,
    panels_height,
    stroke,
)
from workloads.spool import finite, parts

PANEL = 110  # pixels of height a run


def load_over_time(runs: Sequence[Run], points: int = 400) -> go.Figure:
    """Counts of requests against time; the waiting ones as a band from least to most."""
    fig = figure(panels_height(len(runs), PANEL), margin={"l": 78, "r": 12, "t": GAP, "b": 52})
    most = max(len(run.requests["status"]) for run in runs)
    for i, run in enumerate(runs):
        y_axis = axis(
            tr("requests"),
            domain=panel_domain(i, len(runs), PANEL),
            range=[0, max(most, 1) * 1.06],
            nticks=4,
        )
        fig.update_layout({f"yaxis{i + 1}": y_axis})
        _panel(fig, run, i, points)
        peak = int(run.timeline["waiting"].max(initial=0))
        words = tr("at most {count} waiting", count=f"{peak:,}")
        panel_title(fig, f"<b>{run.label}</b>  {words}", 0, i, len(runs), PANEL)
    time = axis(tr("time since the first arrival (s)"), anchor=f"y{len(runs)}", hoverformat=",.4~g")
    fig.update_layout(xaxis=time)
    return fig


def _panel(fig: go.Figure, run: Run, position: int, points: int) -> None:
    y_axis = f"y{position + 1}"
    line = stroke(position)
    found = spans(run.timeline["time_s"], points)
    waiting = run.timeline["waiting"]
    if len(waiting):
        low, high = found.least(waiting), found.most(waiting)
        fig.add_scatter(x=found.time, y=low, yaxis=y_axis, mode="lines", line={"width": 0},
                        hoverinfo="skip")  # fmt: skip
        fig.add_scatter(
            x=found.time, y=high, yaxis=y_axis, mode="lines", line={"width": 0},
            fill="tonexty", fillcolor=WAITING + "55", hoverinfo="skip",
        )  # fmt: skip
        fig.add_scatter(
            x=found.time,
            y=found.mean(waiting),
            yaxis=y_axis,
            name=tr("waiting"),
            mode="lines",
            line={"color": WAITING, "width": 1.4},
            hovertemplate=tr("%{y:,.0f} waiting at %{x:,.4~g} s"),
        )
    for name, color in (("arrived", ARRIVED), ("done", line.color)):
        x, y = steps(_times(run, name), points)
        fig.add_scatter(
            x=x,
            y=y,
            yaxis=y_axis,
            name=tr(name),
            mode="lines",
            line={"color": color, "width": 1.8, "dash": "dot" if name == "arrived" else "solid"},
            hovertemplate="%{y:,.0f} " + tr(name) + tr(" at %{x:,.4~g} s"),
        )
    load = service(run)
    domain = "y domain" if position == 0 else f"{y_axis} domain"
    for at, left in ((load.arrivals_end_s, False), (load.behind_from_s, True)):
        if at is None or load.offered is None:
            continue
        time = duration(at)
        said = (
            tr("falls behind from {time}", time=time)
            if left
            else tr("arrivals end {time}", time=time)
        )
        fig.add_shape(
            type="line", xref="x", x0=at, x1=at, yref=domain, y0=0, y1=1,
            line={"color": MUTED, "width": 1, "dash": "dash"},
        )  # fmt: skip
        fig.add_annotation(
            text=said, showarrow=False, xref="x", x=at,
            yref=domain, y=0.4 if left else 0.75,
            yanchor="middle", xanchor="left" if left else "right",
            font={"size": 11, "color": MUTED},
        )  # fmt: skip


def _times(run: Run, name: str) -> np.ndarray:
    """When requests arrived, or were done (s)."""
    column = "finish_s" if name == "done" else "arrival_s"
    return finite(len(run.requests[column]), (part for (part,) in parts(run.requests, column)))


def steps(times: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """When so many events had happened: at most `points` of sorted times (s) and their ranks."""
    rows = np.unique(np.linspace(0, max(len(times) - 1, 0), points).round().astype(np.int64))
    rows = rows[rows < len(times)]
    return np.sort(times)[rows], rows + 1
