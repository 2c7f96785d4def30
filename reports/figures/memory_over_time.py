"""What the KV budget held over time: one stacked panel a run, all on the same two axes."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.downsample import kept
from reports.load import Run
from reports.theme import INK, USES, axis, figure

GIB = 2**30
PANEL = 132  # pixels of height a run
GAP = 30  # between panels: room for a title


def memory_over_time(runs: Sequence[Run], points: int = 1500) -> go.Figure:
    """Stacked bytes by use against time, in GiB, with the capacity as a dashed line."""
    height = len(runs) * (PANEL + GAP) + 52
    fig = figure(height, margin={"l": 64, "r": 20, "t": GAP, "b": 52}, hovermode="x unified")
    inner = height - GAP - 52
    top = max(run.info.pool.capacity_bytes for run in runs) / GIB
    for i, run in enumerate(runs):
        y_name = f"yaxis{i + 1 if i else ''}"
        upper = 1 - i * (PANEL + GAP) / inner
        domain = [max(0, upper - PANEL / inner), upper]
        fig.update_layout(
            {y_name: axis("GiB", domain=domain, range=[0, top * 1.06], nticks=4, fixedrange=True)}
        )
        _stack(fig, run, f"y{i + 1 if i else ''}", points)
        capacity = run.info.pool.capacity_bytes / GIB
        fig.add_annotation(
            text=f"<b>{run.label}</b>  capacity {capacity:,.2f} GiB",
            font={"size": 12, "color": INK},
            xref="paper", yref="paper", x=0, y=upper,
            xanchor="left", yanchor="bottom", yshift=3, showarrow=False,
        )  # fmt: skip
        fig.add_shape(
            type="line", xref="paper", x0=0, x1=1, yref=f"y{i + 1 if i else ''}",
            y0=capacity, y1=capacity, line={"color": INK, "width": 1, "dash": "dash"},
        )  # fmt: skip
    last = f"y{len(runs) if len(runs) > 1 else ''}"
    fig.update_layout(xaxis=axis("time since the first arrival (s)", anchor=last))
    return fig


def _stack(fig: go.Figure, run: Run, y_axis: str, points: int) -> None:
    time = run.timeline["time_s"]
    columns = [run.timeline[f"{use}_bytes"] for use in USES]
    rows = kept(time, columns, points) if len(time) else slice(0)
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
