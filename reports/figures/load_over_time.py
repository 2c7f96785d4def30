"""How many requests ran and how many waited: all runs over one time axis."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.downsample import kept
from reports.load import Run
from reports.theme import axis, figure, stroke


def load_over_time(runs: Sequence[Run], points: int = 1000) -> go.Figure:
    """Running requests above, waiting ones below, each run a line in its own colour and dash."""
    fig = figure(
        470,
        xaxis=axis("time since the first arrival (s)", anchor="y2"),
        yaxis=axis("running (requests)", domain=[0.56, 1], rangemode="tozero"),
        yaxis2=axis("waiting (requests)", domain=[0, 0.44], rangemode="tozero"),
    )
    for column, y_axis in (("running", "y"), ("waiting", "y2")):
        for i, run in enumerate(runs):
            time, count = run.timeline["time_s"], run.timeline[column]
            rows = kept(time, [count], points) if len(time) else slice(0)
            line = stroke(i)
            fig.add_scatter(
                x=time[rows],
                y=count[rows],
                yaxis=y_axis,
                name=run.label,
                mode="lines",
                line={"color": line.color, "dash": line.dash, "width": 1.6},
                hovertemplate=f"%{{y:,.0f}} {column} at %{{x:,.1f}} s",
            )
    return fig
