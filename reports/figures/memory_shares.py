"""What the KV budget held on average: one bar a run, its uses adding up to 100 %."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.load import Run
from reports.theme import USES, axis, category_axis, figure

BAR = 38  # pixels of height a run


def memory_shares(runs: Sequence[Run]) -> go.Figure:
    """Mean share of the budget by use, from the `kv_<use>_share_mean` metrics."""
    fig = figure(
        len(runs) * BAR + 52,
        barmode="stack",
        bargap=0.28,
        margin={"l": 12, "r": 20, "t": 4, "b": 48},
        xaxis=axis("share of the KV budget, mean while requests run (%)", range=[0, 100]),
        yaxis=category_axis(),
    )
    for use, look in USES.items():
        shares = [run.value(f"kv_{use}_share_mean") for run in runs]
        fig.add_bar(
            y=[run.label for run in runs],
            x=shares,
            orientation="h",
            name=look.label,
            marker={"color": look.color, "line": {"width": 0}},
            # A number that doesn't fit would shrink or turn; those are in the table.
            text=["" if s is None or s < 4 else f"{s:.1f}" for s in shares],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 12, "color": look.text},
            hovertemplate=f"%{{y}}<br>{look.label}: %{{x:.2f}} %<extra></extra>",
        )
    return fig
