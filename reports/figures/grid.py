"""Two numbers varied: where a policy keeps up, and the p99 of TTFT, as a map of cells."""

import plotly.graph_objects as go

from reports.formats import duration, number, rate_per_s
from reports.grid import Grid
from reports.language import tr
from reports.service import service
from reports.table import Table
from reports.theme import axis, figure, panel_domain, panel_title, panels_height

CELL = 34  # pixels of height
KEEPS_UP, FALLS_BEHIND = ("#17734F", "#FFFFFF"), ("#A8321A", "#FFFFFF")


def grid_figure(grid: Grid) -> tuple[go.Figure, Table]:
    """A panel a policy; green keeps up, red falls behind, the number is the p99 of TTFT."""
    ups = sorted({up for cells in grid.policies.values() for _, up in cells})
    acrosses = sorted({across for cells in grid.policies.values() for across, _ in cells})
    panel = CELL * len(ups)
    count = len(grid.policies)
    fig = figure(panels_height(count, panel), margin={"l": 96, "r": 12, "t": 30, "b": 52},
                 barmode="overlay", bargap=0.04)  # fmt: skip
    rows = []
    for i, (policy, cells) in enumerate(grid.policies.items()):
        fig.update_layout({f"yaxis{i + 1}": axis(
            tr(grid.up.name), domain=panel_domain(i, count, panel), range=[-0.5, len(ups) - 0.5],
            tickvals=list(range(len(ups))), ticktext=[grid.up.text(value) for value in ups],
        )})  # fmt: skip
        panel_title(fig, f"<b>{policy}</b>", 0, i, count, panel)
        for (across, up), run in sorted(cells.items()):
            load = service(run)
            color, ink = KEEPS_UP if load.keeps_up else FALLS_BEHIND
            ttft = run.value("ttft_ms_p99")
            said = tr("keeps up") if load.keeps_up else tr("falls behind")
            fig.add_bar(
                x=[acrosses.index(across)], base=[ups.index(up) - 0.48], y=[0.96],
                yaxis=f"y{i + 1}", marker={"color": color, "line": {"width": 0}},
                text="–" if ttft is None else duration(ttft / 1000), textposition="inside",
                insidetextanchor="middle", textangle=0, textfont={"size": 12, "color": ink},
                hovertemplate=f"{said}<extra></extra>",
            )  # fmt: skip
            rows.append((policy, grid.across.text(across), grid.up.text(up), said,
                         "–" if load.served is None else rate_per_s(load.served),
                         number(ttft, "ms")))  # fmt: skip
    fig.update_layout(xaxis=axis(
        tr(grid.across.title), anchor=f"y{count}", range=[-0.5, len(acrosses) - 0.5],
        tickvals=list(range(len(acrosses))),
        ticktext=[grid.across.text(value) for value in acrosses],
    ))  # fmt: skip
    head = (tr("policy"), tr(grid.across.name), tr(grid.up.name), tr("load"),
            tr("served (requests/s)"), "TTFT p99 (ms)")  # fmt: skip
    return fig, Table(head, tuple(rows))
