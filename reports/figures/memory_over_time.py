"""What the KV budget held over time: one stacked panel a run, all on the same two axes."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.downsample import kept
from reports.formats import GIB
from reports.load import Run
from reports.theme import GAP, INK, USES, axis, figure, panel_domain, panel_title, panels_height

PANEL = 132  # pixels of height a run


def memory_over_time(runs: Sequence[Run], points: int = 1500) -> go.Figure:
    """Stacked bytes by use against time, in GiB, with the capacity as a dashed line."""
    fig = figure(
        panels_height(len(runs), PANEL),
        margin={"l": 64, "r": 20, "t": GAP, "b": 52},
        hovermode="x unified",
    )
    top = max(run.info.pool.capacity_bytes for run in runs) / GIB
    for i, run in enumerate(runs):
        y_axis = axis(
            "GiB", domain=panel_domain(i, len(runs), PANEL), range=[0, top * 1.06], nticks=4
        )
        fig.update_layout({f"yaxis{i + 1}": y_axis})
        _stack(fig, run, f"y{i + 1}", points)
        capacity = run.info.pool.capacity_bytes / GIB
        title = f"<b>{run.label}</b>  capacity {capacity:,.2f} GiB"
        panel_title(fig, title, 0, i, len(runs), PANEL)
        fig.add_shape(
            type="line", xref="paper", x0=0, x1=1, yref=f"y{i + 1}", y0=capacity, y1=capacity,
            line={"color": INK, "width": 1, "dash": "dash"},
        )  # fmt: skip
    fig.update_layout(xaxis=axis("time since the first arrival (s)", anchor=f"y{len(runs)}"))
    return fig


def _stack(fig: go.Figure, run: Run, y_axis: str, points: int) -> None:
    time = run.timeline["time_s"]
    columns = [run.timeline[f"{use}_bytes"] for use in USES]
    rows = kept(time, columns, points)
    for look, column in zip(USES.values(), columns, strict=True):
        fig.add_scatter(
            x=time[rows],
            y=column[rows] / GIB,
            yaxis=y_axis,
            name=look.label,
            stackgroup=y_axis,
            mode="lines",
            line={"width": 0},
            fillcolor=look.color,
            hovertemplate="%{y:.3f} GiB",
        )
