"""How latencies are distributed: the share of requests served within a time, a curve a run, with a
line at the level that a promise is usually made for."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.downsample import curve
from reports.language import tr
from reports.latency import Latency
from reports.theme import MUTED, axis, figure, stroke

LEVEL = 99  # per cent of requests


def latency(
    title: str, unit: str, per_s: float, runs: Sequence[tuple[str, Latency]], points: int = 600
) -> go.Figure:
    """Cumulative distributions, on a logarithmic axis where they span it; `per_s` units a second.

    A curve that ends below 100 % says that the rest never got that far.
    """
    fig = figure(
        340,
        margin={"l": 56, "r": 16, "t": 8, "b": 48},
        xaxis=axis(f"{tr(title)} ({unit}{_log(runs)})", **_scale(runs)),
        yaxis=axis(tr("requests within (%)"), range=[0, 101]),
    )
    for i, (label, known) in enumerate(runs):
        values, ranks = curve(known.values * per_s, points)
        line = stroke(i)
        fig.add_scatter(
            x=values,
            y=ranks / max(known.of, 1) * 100,
            name=label,
            mode="lines",
            line={"color": line.color, "dash": line.dash, "width": 1.8, "shape": "hv"},
            hovertemplate=tr("%{y:.1f} % within %{x:,.4~g}") + f" {unit}",
        )
    fig.add_shape(
        type="line", xref="paper", x0=0, x1=1, yref="y", y0=LEVEL, y1=LEVEL,
        line={"color": MUTED, "width": 1, "dash": "dash"},
    )  # fmt: skip
    fig.add_annotation(
        text=f"{LEVEL} %", showarrow=False, xref="paper", x=0, y=LEVEL, xanchor="left",
        yanchor="top", font={"size": 11, "color": MUTED},
    )  # fmt: skip
    return fig


def _log(runs: Sequence[tuple[str, Latency]]) -> str:
    """Says that an axis is logarithmic."""
    return tr(", logarithmic") if _scale(runs) else ""


def _scale(runs: Sequence[tuple[str, Latency]]) -> dict[str, object]:
    """Logarithmic where the values span a decade, which zeros can't."""
    there = [known.values for _, known in runs if len(known.values)]
    low, high = min(values.min() for values in there), max(values.max() for values in there)
    if low <= 0 or high / low < 10:
        return {}
    return {"type": "log", "dtick": 1 if high / low > 100 else "D2"}
