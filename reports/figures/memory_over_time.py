"""What the KV budget held over time: one stacked panel a run, all on the same two axes."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from reports.bands import spans
from reports.formats import GIB, MIB, gib
from reports.language import tr
from reports.load import Run, cached, knows_parts
from reports.theme import (
    GAP,
    INK,
    MUTED,
    SHOWN_USES,
    axis,
    figure,
    panel_domain,
    panel_title,
    panels_height,
)

PANEL = 132  # pixels of height a run


def memory_over_time(runs: Sequence[Run], points: int = 400) -> go.Figure:
    """Mean bytes by use in each span of time, stacked, in GiB or MiB; the least and the most taken
    as thin lines, the capacity as a dashed one."""
    fig = figure(
        panels_height(len(runs), PANEL),
        margin={"l": 78, "r": 12, "t": GAP, "b": 52},
        hovermode="x unified",
    )
    largest = max(run.info.pool.capacity_bytes for run in runs)
    scale, unit = (GIB, "GiB") if largest >= 0.1 * GIB else (MIB, "MiB")
    top = largest / scale
    for i, run in enumerate(runs):
        y_axis = axis(
            unit, domain=panel_domain(i, len(runs), PANEL), range=[0, top * 1.06], nticks=4
        )
        fig.update_layout({f"yaxis{i + 1}": y_axis})
        _stack(fig, run, f"y{i + 1}", points, scale, unit)
        capacity = run.info.pool.capacity_bytes / scale
        words = tr("capacity {size}", size=gib(run.info.pool.capacity_bytes))
        panel_title(fig, f"<b>{run.label}</b>  {words}", 0, i, len(runs), PANEL)
        fig.add_shape(
            type="line", xref="paper", x0=0, x1=1, yref=f"y{i + 1}", y0=capacity, y1=capacity,
            line={"color": INK, "width": 1, "dash": "dash"},
        )  # fmt: skip
    time = axis(tr("time since the first arrival (s)"), anchor=f"y{len(runs)}", hoverformat=",.4~g")
    fig.update_layout(xaxis=time)
    return fig


def _stack(fig: go.Figure, run: Run, y_axis: str, points: int, scale: int, unit: str) -> None:
    found = spans(run.timeline["time_s"], points)
    reusable = cached(run)
    columns = {use: run.timeline[f"{use}_bytes"] for use in SHOWN_USES if use != "cached"}
    columns = {**columns, "cached": reusable, "free": columns["free"] - reusable}
    whole = not knows_parts(run)  # then all that is in use is under live
    for use, look in SHOWN_USES.items():
        if use == "cached" and not reusable.any():
            continue
        if whole and use not in ("live", "free"):
            continue
        lumped = whole and use == "live"
        fig.add_scatter(
            x=found.time,
            y=found.mean(columns[use]) / scale,
            yaxis=y_axis,
            name=tr("used") if lumped else tr(look.label),
            stackgroup=y_axis,
            mode="lines",
            line={"width": 0},
            fillcolor=MUTED if lumped else look.color,
            hovertemplate=f"%{{y:.3f}} {unit}",
        )
    if len(found.time) == len(run.timeline["time_s"]):
        return
    taken = run.info.pool.capacity_bytes - run.timeline["free_bytes"]
    for name, values in (("least taken", found.least(taken)), ("most taken", found.most(taken))):
        fig.add_scatter(
            x=found.time,
            y=np.asarray(values) / scale,
            yaxis=y_axis,
            name=tr(name),
            mode="lines",
            line={"width": 0.8, "color": INK, "dash": "dot"},
            hovertemplate=f"%{{y:.3f}} {unit}",
        )
