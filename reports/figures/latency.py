"""How latencies are distributed: the share of requests served within a time, a curve a run."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from reports.downsample import curve
from reports.latency import Latency
from reports.theme import axis, figure, stroke


def latency(
    title: str, unit: str, per_s: float, runs: Sequence[tuple[str, Latency]], points: int = 600
) -> go.Figure:
    """Cumulative distributions, on a logarithmic axis where they span it; `per_s` units a second.

    A curve that ends below 100 % says that the rest never got that far.
    """
    fig = figure(
        340,
        margin={"l": 56, "r": 16, "t": 8, "b": 48},
        xaxis=axis(f"{title} ({unit})", **_scale(runs)),
        yaxis=axis("requests within (%)", range=[0, 101]),
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
            hovertemplate=f"%{{y:.1f}} % within %{{x:,.4~g}} {unit}",
        )
    return fig


def _scale(runs: Sequence[tuple[str, Latency]]) -> dict[str, object]:
    """Logarithmic where the values span a decade, which zeros can't."""
    values = np.concatenate([known.values for _, known in runs])
    low, high = values.min(), values.max()
    if low <= 0 or high / low < 10:
        return {}
    return {"type": "log", "dtick": 1 if high / low > 100 else "D2"}
