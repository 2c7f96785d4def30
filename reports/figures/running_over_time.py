"""How many requests ran at once over time, a panel a run, one scale."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.bands import spans
from reports.language import tr
from reports.load import Run
from reports.theme import GAP, axis, figure, panel_domain, panel_title, panels_height, stroke

PANEL = 64  # pixels of height a run


def running_over_time(runs: Sequence[Run], points: int = 400) -> go.Figure:
    """The mean of each span of time, within a band from the least to the most."""
    fig = figure(panels_height(len(runs), PANEL), margin={"l": 78, "r": 12, "t": GAP, "b": 52})
    top = max(int(run.timeline["running"].max(initial=0)) for run in runs)
    for i, run in enumerate(runs):
        y_axis = axis(
            tr("requests"),
            domain=panel_domain(i, len(runs), PANEL),
            range=[0, max(top, 1) * 1.08],
            nticks=3,
        )
        fig.update_layout({f"yaxis{i + 1}": y_axis})
        found = spans(run.timeline["time_s"], points)
        running, color = run.timeline["running"], stroke(i).color
        if len(running):
            low, high = found.least(running), found.most(running)
            fig.add_scatter(x=found.time, y=low, yaxis=f"y{i + 1}", mode="lines",
                            line={"width": 0}, hoverinfo="skip")  # fmt: skip
            fig.add_scatter(
                x=found.time, y=high, yaxis=f"y{i + 1}", mode="lines", line={"width": 0},
                fill="tonexty", fillcolor=color + "44", hoverinfo="skip",
            )  # fmt: skip
            fig.add_scatter(
                x=found.time,
                y=found.mean(running),
                yaxis=f"y{i + 1}",
                name=run.label,
                mode="lines",
                line={"color": color, "width": 1.4},
                hovertemplate=tr("%{y:,.1f} running at %{x:,.4~g} s"),
            )
        panel_title(fig, f"<b>{run.label}</b>", 0, i, len(runs), PANEL)
    time = axis(tr("time since the first arrival (s)"), anchor=f"y{len(runs)}", hoverformat=",.4~g")
    fig.update_layout(xaxis=time)
    return fig
