"""Figures of a sweep's table: lines along the load, a heat map, a Pareto frontier."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from reports.formats import number
from reports.language import tr
from reports.table import Table
from reports.theme import INK, MUTED, axis, figure, panel_domain, panel_title, panels_height, stroke

PANEL = 170
GOOD, BAD = "circle", "x"
CELL = 36  # pixels of height
Rows = Sequence[Mapping[str, Any]]


NAMES = {
    "goodput": "Goodput",
    "request_throughput": "Served",
    "request_rate": "request rate",
    "users": "users",
    "concurrency": "requests at once",
    "cost_per_hour": "Cost an hour",
    "gpus": "number of GPUs",
    "policy": "policy",
    "gpu": "device",
    "model": "model",
}


def plain_name(column: str) -> str:
    """A column as people say it: TTFT p99 of slo_ttft_ms_p99; an option keeps its own name."""
    if time := re.fullmatch(r"(?:slo_)?(ttft|tpot|itl|e2e)l?_ms_(\w+)", column):
        return f"{time[1].upper()} {time[2]}"
    return tr(NAMES[column]) if column in NAMES else column


class Along(Protocol):
    """A configuration along the load."""

    @property
    def label(self) -> str: ...
    @property
    def rows(self) -> list[dict[str, Any]]: ...


def load_figure(
    lines: Sequence[Along], load: str, latencies: Sequence[str], limits_ms: Mapping[str, float]
) -> tuple[go.Figure, Table]:
    """A panel a latency with its limit, and one of goodput; a line a configuration.

    Crosses break the level; a ring marks the knee.
    """
    goodput = "goodput" if limits_ms else "request_throughput"
    panels = [*latencies, goodput]
    count = len(panels)
    fig = figure(panels_height(count, PANEL), margin={"l": 78, "r": 12, "t": 30, "b": 52})
    for place, metric in enumerate(panels):
        timed = metric != goodput
        scale = {"type": "log"} if timed else {"rangemode": "tozero"}
        unit = f"ms{tr(', logarithmic')}" if timed else tr("requests/s")
        fig.update_layout(
            {f"yaxis{place + 1}": axis(unit, domain=panel_domain(place, count, PANEL), **scale)}
        )
        panel_title(fig, f"<b>{plain_name(metric)}</b>", 0, place, count, PANEL)
        for i, line in enumerate(lines):
            points = [(row[load], row.get(metric), row.get("slo_met")) for row in line.rows]
            known = [(x, y, met) for x, y, met in points if y is not None and (y > 0 or not timed)]
            x, y = [p[0] for p in known], [p[1] for p in known]
            fig.add_scatter(
                x=x, y=y, yaxis=f"y{place + 1}", name=line.label, mode="lines+markers",
                line={"color": stroke(i).color, "dash": stroke(i).dash, "width": 1.8},
                marker={"symbol": [BAD if met == 0 else GOOD for *_, met in known], "size": 7},
                meta=line.label, hovertemplate="%{x:,.4~g}: %{y:,.4~g} (%{meta})<extra></extra>",
            )  # fmt: skip
            bend = knee(np.array(x, dtype=float), np.array(y, dtype=float)) if timed else None
            if bend is not None:
                fig.add_scatter(
                    x=[x[bend]], y=[y[bend]], yaxis=f"y{place + 1}", mode="markers",
                    marker={"symbol": "circle-open", "size": 15, "color": stroke(i).color},
                    name=tr("knee"), meta=line.label,
                    hovertemplate=f"{tr('knee')} %{{x:,.4~g}} (%{{meta}})<extra></extra>",
                )  # fmt: skip
        if metric in limits_ms:
            loads = [row[load] for line in lines for row in line.rows]
            fig.add_scatter(
                x=[min(loads), max(loads)], y=[limits_ms[metric]] * 2, yaxis=f"y{place + 1}",
                mode="lines", line={"color": MUTED, "dash": "dot", "width": 1.4}, name=tr("limit"),
                hovertemplate=f"{tr('limit')} %{{y:,.4~g}} ms<extra></extra>",
            )  # fmt: skip
    title = tr("requests offered (requests/s)") if load == "request_rate" else plain_name(load)
    fig.update_layout(xaxis=axis(title, anchor=f"y{count}", tickformat=",.3~g"))
    rows = tuple(
        (line.label, f"{row[load]:g}", _level(row.get("slo_met")),
         *(number(row.get(name), "ms") for name in panels))
        for line in lines for row in line.rows
    )  # fmt: skip
    return fig, Table(
        (tr("configuration"), plain_name(load), tr("level"), *map(plain_name, panels)), rows
    )


def _level(met: int | None) -> str:
    return "–" if met is None else tr("holds") if met else tr("broken")


def knee(x: NDArray[Any], y: NDArray[Any]) -> int | None:
    """Where the curve leaves the chord from its first to its last point most (Satopaa et al.,
    Kneedle, ICDCS'11, without smoothing); None for fewer than four points, or no bend below it."""
    if len(x) < 4 or y.max() <= y.min() or x.max() <= x.min():
        return None
    across, up = (x - x[0]) / (x[-1] - x[0]), (y - y.min()) / (y.max() - y.min())
    below = across - up
    place = int(below.argmax())
    return place if 0 < place < len(x) - 1 and below[place] > 0.1 else None


def heat_map(rows: Rows, one: str, two: str, best: str) -> tuple[go.Figure, Table]:
    """The highest value that two options allow, over whatever else varies."""
    across, down = _values(rows, one), _values(rows, two)
    cells: dict[tuple[str, str], float] = {}
    for row in rows:
        place = str(row[one]), str(row[two])
        if (value := row.get(best)) is not None:
            cells[place] = max(value, cells.get(place, value))
    grid = [[cells.get((x, y)) for x in across] for y in down]
    fig = figure(70 + CELL * len(down), margin={"l": 120, "r": 20, "t": 12, "b": 52}, bargap=0.04)
    known = [(i, k, cells[x, y]) for i, x in enumerate(across) for k, y in enumerate(down)
             if (x, y) in cells]  # fmt: skip
    most = max((value for *_, value in known), default=0.0) or 1.0
    fig.add_bar(
        x=[i for i, *_ in known], base=[k - 0.48 for _, k, _ in known], y=[0.96] * len(known),
        marker={"color": [_blue(value / most) for *_, value in known], "line": {"width": 0}},
        text=[number(value, "req/s") for *_, value in known], textposition="inside",
        insidetextanchor="middle", textangle=0,
        textfont={"color": [INK if value < most / 2 else "#FFFFFF" for *_, value in known]},
        customdata=[
            f"{plain_name(one)} {across[i]}, {plain_name(two)} {down[k]}" for i, k, _ in known
        ],
        hovertemplate="%{customdata}: %{text}<extra></extra>",
    )  # fmt: skip
    for title, values, name in ((one, across, "xaxis"), (two, down, "yaxis")):
        ticks = {"tickvals": list(range(len(values))), "ticktext": values}
        fig.update_layout({name: axis(plain_name(title), range=[-0.5, len(values) - 0.5], **ticks)})
    table = tuple((y, *(number(value) for value in row)) for y, row in zip(down, grid, strict=True))
    return fig, Table((f"{plain_name(two)} \\ {plain_name(one)}", *across), table)


def _blue(share: float) -> str:
    """From pale to dark."""
    pale, dark = (0xE6, 0xF0, 0xF7), (0x0B, 0x4F, 0x7A)
    return "#" + "".join(
        f"{round(low + (high - low) * share):02X}" for low, high in zip(pale, dark, strict=True)
    )


def pareto(rows: Rows, others: Sequence[str], cost: str, best: str) -> tuple[go.Figure, Table]:
    """Every run by what it costs and serves; those that nothing cheaper beats are joined."""
    points = sorted(
        ((row[cost], row[best], _label(row, others)) for row in rows if row.get(best) is not None),
        key=lambda point: (point[0], -point[1]),
    )
    edge: list[tuple[float, float, str]] = []
    for point in points:
        if not edge or point[1] > edge[-1][1]:
            edge.append(point)
    fig = figure(380)
    for chosen, name, style in (
        (points, tr("runs"), {"mode": "markers", "marker": {"color": MUTED, "size": 6}}),
        (edge, tr("frontier"), {"mode": "lines+markers", "line": {"color": stroke(0).color},
                            "marker": {"size": 9}}),
    ):  # fmt: skip
        fig.add_scatter(
            x=[x for x, *_ in chosen], y=[y for _, y, _ in chosen], name=name,
            text=[label for *_, label in chosen],
            hovertemplate="%{x:,.4~g}: %{y:,.4~g}<br>%{text}<extra></extra>", **style,
        )  # fmt: skip
    title = tr("$ an hour") if cost == "cost_per_hour" else tr("GPUs (devices)")
    fig.update_layout(
        xaxis=axis(title, rangemode="tozero"),
        yaxis=axis(f"{plain_name(best)} ({tr('requests/s')})", rangemode="tozero"),
    )
    table = tuple((label, number(x, "$"), number(y, "req/s")) for x, y, label in edge)
    return fig, Table((tr("on the frontier"), title, plain_name(best)), table)


def _label(row: Mapping[str, Any], others: Sequence[str]) -> str:
    return tr(", ").join(f"{plain_name(name)} {row[name]}" for name in others)


def _values(rows: Rows, name: str) -> list[str]:
    return list(dict.fromkeys(str(row[name]) for row in rows))
