"""How many requests ran and how many waited over time: a row of two panels a run.

Lines laid over each other would hide all but the last: here every run has its own panels. Running
requests share a scale. Queues differ by orders of magnitude, so each has its own, as titles say.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.downsample import kept
from reports.load import Run
from reports.theme import GAP, axis, figure, panel_domain, panel_title, panels_height, stroke

PANEL = 74  # pixels of height a run
TITLES = {"running": "running", "waiting": "waiting (own scale)"}
COLUMNS = {"running": [0.0, 0.47], "waiting": [0.55, 1.0]}


def load_over_time(runs: Sequence[Run], points: int = 1000) -> go.Figure:
    """Running requests on the left, waiting ones on the right, in each run's own colour."""
    fig = figure(panels_height(len(runs), PANEL), margin={"l": 64, "r": 20, "t": GAP, "b": 52})
    for column, (state, across) in enumerate(COLUMNS.items()):
        tops = [int(run.timeline[state].max(initial=0)) for run in runs]
        for i, run in enumerate(runs):
            top = max(tops) if state == "running" else tops[i]
            number = i * len(COLUMNS) + column + 1
            y_axis = axis(
                "requests",
                domain=panel_domain(i, len(runs), PANEL),
                range=[0, max(top, 1) * 1.08],
                anchor=f"x{column + 1}",
                nticks=3,
            )
            fig.update_layout({f"yaxis{number}": y_axis})
            _line(fig, run, state, i, f"x{column + 1}", f"y{number}", points)
            panel_title(fig, f"<b>{run.label}</b>  {TITLES[state]}", across[0], i, len(runs), PANEL)
        last = f"y{(len(runs) - 1) * len(COLUMNS) + column + 1}"
        fig.update_layout(
            {
                f"xaxis{column + 1}": axis(
                    "time since the first arrival (s)",
                    domain=across,
                    anchor=last,
                    matches="x" if column else None,
                )
            }
        )
    return fig


def _line(
    fig: go.Figure, run: Run, state: str, position: int, x_axis: str, y_axis: str, points: int
) -> None:
    time, count = run.timeline["time_s"], run.timeline[state]
    rows = kept(time, [count], points)
    fig.add_scatter(
        x=time[rows],
        y=count[rows],
        xaxis=x_axis,
        yaxis=y_axis,
        name=run.label,
        mode="lines",
        line={"color": stroke(position).color, "width": 1.2},
        fill="tozeroy",
        hovertemplate=f"%{{y:,.0f}} {state} at %{{x:,.1f}} s",
    )
