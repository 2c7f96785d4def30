"""What a sweep answers: served rate and latencies against the number that varies."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from reports.formats import number, rate_per_s
from reports.language import tr
from reports.service import service
from reports.sweep import RATE, Sweep
from reports.table import Table
from reports.theme import MUTED, axis, figure, panel_domain, panel_title, panels_height, stroke

PANEL = 150
PANELS = (
    ("served", "requests/s", "request_throughput", 1.0),
    ("TTFT p50 and p99 (dashed)", "s", "ttft_ms_p", 1e-3),
    ("TPOT p50 and p99 (dashed)", "ms", "tpot_ms_p", 1.0),
)


def sweep_figure(swept: Sweep) -> tuple[go.Figure, Table]:
    """Three panels over one axis, a line a policy."""
    count = len(PANELS)
    fig = figure(panels_height(count, PANEL), margin={"l": 78, "r": 12, "t": 30, "b": 52})
    for row, (title, unit, metric, scale) in enumerate(PANELS):
        scale_of: dict[str, Any] = {"type": "log"} if row == 1 else {"rangemode": "tozero"}
        words = tr("s, logarithmic") if row == 1 else tr(unit)
        y_axis = axis(words, domain=panel_domain(row, count, PANEL), nticks=5, **scale_of)
        fig.update_layout({f"yaxis{row + 1}": y_axis})
        panel_title(fig, f"<b>{tr(title)}</b>", 0, row, count, PANEL)
        for i, (policy, line) in enumerate(swept.lines.items()):
            for name in (metric,) if row == 0 else (f"{metric}50", f"{metric}99"):
                points = [(x, run.value(name)) for x, run in line]
                known = [(x, y * scale) for x, y in points if y is not None]
                fig.add_scatter(
                    x=[x for x, _ in known],
                    y=[y for _, y in known],
                    yaxis=f"y{row + 1}",
                    name=policy,
                    mode="lines+markers",
                    line={
                        "color": stroke(i).color,
                        "width": 1.8,
                        "dash": "dash" if name.endswith("99") else "solid",
                    },
                    meta=policy,
                    hovertemplate=f"%{{y:,.4~g}} {unit} (%{{meta}})<extra></extra>",
                )
    if swept.axis is RATE:
        values = np.array([x for line in swept.lines.values() for x, _ in line])
        fig.add_scatter(
            x=[0, values.max()], y=[0, values.max()], mode="lines", name=tr("offered"),
            line={"color": MUTED, "width": 1, "dash": "dot"}, hoverinfo="skip",
        )  # fmt: skip
    across = axis(tr(swept.axis.title), anchor=f"y{count}", tickformat=",.3~g")
    fig.update_layout(xaxis=across)
    return fig, _table(swept)


def _table(swept: Sweep) -> Table:
    names = ("ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "tpot_ms_p99", "running_mean",
             "num_preemptions")  # fmt: skip
    rows = []
    for policy, line in swept.lines.items():
        for x, run in line:
            load = service(run)
            rows.append(
                (
                    policy,
                    swept.axis.text(x),
                    "–" if load.served is None else rate_per_s(load.served),
                    tr("keeps up") if load.keeps_up else tr("falls behind"),
                    *(number(run.value(name), "ms" if "_ms_" in name else "") for name in names),
                )
            )
    head = (
        tr("policy"),
        tr(swept.axis.name),
        tr("served (requests/s)"),
        tr("load"),
        "TTFT p50 (ms)",
        "TTFT p99 (ms)",
        "TPOT p50 (ms)",
        "TPOT p99 (ms)",
        tr("running, mean"),
        tr("preemptions"),
    )
    return Table(head, tuple(rows))
