"""Where the engine's time went: steps with prefill in them, pure decode steps, and idling."""

from collections.abc import Sequence

import plotly.graph_objects as go

from reports.language import tr
from reports.load import STEPS, Run
from reports.theme import axis, category_axis, figure
from workloads.spool import parts
from workloads.sums import pairwise_sum

BAR = 34  # pixels of height a run
PARTS = {
    "steps with prefill": ("#8F6526", "#FFFFFF"),
    "pure decode steps": ("#2F6F73", "#FFFFFF"),
    "idle": ("#EDEFF1", "#4A5560"),
}


def seconds(run: Run) -> tuple[float, float, float]:
    """Seconds by part, until the end of the last step."""
    steps = run.steps
    events = len(steps["start_s"])
    prefilling, end = 0, 0.0
    for tokens, end_s in parts(steps, "prefill_tokens", "end_s"):
        prefilling += int((tokens > 0).sum())
        end = max(end, float(end_s.max(initial=0.0)))
    mixed = pairwise_sum(
        prefilling,
        ((end_s - start_s)[tokens > 0] for start_s, end_s, tokens in parts(steps, *STEPS)),
    )
    lengths = (end_s - start_s for start_s, end_s in parts(steps, "start_s", "end_s"))
    decode = pairwise_sum(events, lengths) - mixed
    return mixed, decode, max(0.0, end - mixed - decode)


def time_split(runs: Sequence[Run]) -> go.Figure:
    """One bar a run, in seconds, ending where its last step ended."""
    fig = figure(
        len(runs) * BAR + 52,
        barmode="stack",
        bargap=0.28,
        margin={"l": 12, "r": 20, "t": 4, "b": 48},
        xaxis=axis(tr("time spent (s)"), rangemode="tozero"),
        yaxis=category_axis(),
    )
    split = [seconds(run) for run in runs]
    longest = max(sum(parts) for parts in split)
    for i, (part, (color, text)) in enumerate(PARTS.items()):
        values = [parts[i] for parts in split]
        fig.add_bar(
            y=[run.label for run in runs],
            x=values,
            orientation="h",
            name=tr(part),
            marker={"color": color, "line": {"width": 0}},
            text=["" if v < 0.05 * longest else f"{v:,.0f}" for v in values],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 12, "color": text},
            hovertemplate=f"%{{y}}<br>{tr(part)}: %{{x:,.2f}} s<extra></extra>",
        )
    return fig
