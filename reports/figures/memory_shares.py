"""What the KV budget held on average: one bar a run, its uses adding up to 100 %."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.language import tr
from reports.load import Run, cached
from reports.theme import SHOWN_USES, axis, category_axis, figure

BAR = 38  # pixels of height a run


def memory_shares(runs: Sequence[Run]) -> go.Figure:
    """Mean share of the budget by use, from the `kv_<use>_share_mean` metrics; of the free one the
    part that holds prefixes is shown apart."""
    fig = figure(
        len(runs) * BAR + 52,
        barmode="stack",
        bargap=0.28,
        margin={"l": 12, "r": 20, "t": 4, "b": 48},
        xaxis=axis(tr("share of the KV budget, mean while requests run (%)"), range=[0, 100]),
        yaxis=category_axis(),
    )
    reusable = [cached_share(run) for run in runs]
    for use, look in SHOWN_USES.items():
        if use == "cached" and not any(reusable):
            continue
        shares = (
            reusable if use == "cached" else [run.value(f"kv_{use}_share_mean") for run in runs]
        )
        if use == "free":
            shares = [s and s - c for s, c in zip(shares, reusable, strict=True)]
        fig.add_bar(
            y=[run.label for run in runs],
            x=shares,
            orientation="h",
            name=tr(look.label),
            marker={"color": look.color, "line": {"width": 0}},
            # A number that doesn't fit would shrink or turn; those are in the table.
            text=["" if s is None or s < 4 else f"{s:.1f}" for s in shares],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 12, "color": look.text},
            hovertemplate=f"%{{y}}<br>{tr(look.label)}: %{{x:.2f}} %<extra></extra>",
        )
    return fig


def cached_share(run: Run) -> float:
    """Per cent of the budget that is free but holds a prefix, mean while requests run."""
    busy = run.timeline["running"] > 0
    held = cached(run)[busy]
    return 100 * float(held.mean()) / run.info.pool.capacity_bytes if len(held) else 0.0
