"""The charts of a trace's page, each with its numbers as a table."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from reports.charts import Chart
from reports.downsample import curve
from reports.table import Table
from reports.theme import axis, figure, stroke
from workloads.reuse import Reuse
from workloads.schema import Floats, Ints, Trace, Turns

BINS = 200
CELLS = 40
"""Of the lengths' density, along each axis."""

GROUPS = (("1", 0, 1), ("2", 1, 2), ("3 to 5", 2, 5), ("6 to 10", 5, 10), ("11 on", 10, None))
"""Turns are shown in these groups: label, from, up to; turns count from 0."""

QUANTILES = (1, 10, 25, 50, 75, 90, 99, 100)
DENSE = [[0.0, "#B9DDB0"], [0.5, "#4477BB"], [1.0, "#882255"]]


def charts(trace: Trace, reuse: Reuse | None, whole: Trace | None) -> Iterator[Chart]:
    """Those that the trace has something for; `whole` is what steps made it from."""
    if trace.arrival_s[-1] > 0:
        yield _arrivals(trace.arrival_s)
    yield _density(trace.prompt_tokens, trace.output_tokens)
    yield _lengths(trace, whole)
    if trace.turns is not None:
        yield _sizes(trace.turns)
        if (trace.turns.delay_s > 0).any():
            yield _pauses(trace.turns)
    if reuse is not None:
        if trace.turns is None:
            yield _reuse_over_time(trace, reuse)
        else:
            yield _reuse_by_turn(trace.turns, reuse)


def _arrivals(arrival_s: Floats) -> Chart:
    counts, edges = np.histogram(arrival_s, BINS)
    rates = counts / np.diff(edges)
    fig = figure(
        260, xaxis=axis("time (s)"), yaxis=axis("requests/s", rangemode="tozero")
    )  # fmt: skip
    fig.add_scatter(
        x=edges[:-1], y=rates, mode="lines",
        line={"color": stroke(0).color, "width": 1.5, "shape": "hv"},
        hovertemplate="%{y:,.4~g} requests/s from %{x:,.4~g} s<extra></extra>",
    )  # fmt: skip
    tenths = np.histogram(arrival_s, 10)
    rows = tuple(
        (f"{start:,.4g} to {end:,.4g}", f"{count:,}", f"{count / (end - start):,.4g}")
        for start, end, count in zip(
            tenths[1][:-1].tolist(), tenths[1][1:].tolist(), tenths[0].tolist(), strict=True
        )
    )
    table = Table(("time (s)", "requests", "requests/s"), rows)
    return Chart("arrivals", "Requests a second over time", fig, table)


def _edges(tokens: Ints) -> Floats:
    """Edges of cells that are equal on a logarithmic axis."""
    low, high = float(tokens.min()), float(tokens.max())
    return np.geomspace(low, high + 1, CELLS + 1)


def _density(prompt: Ints, output: Ints) -> Chart:
    x_edges, y_edges = _edges(prompt), _edges(output)
    counts, _, _ = np.histogram2d(prompt, output, bins=(x_edges, y_edges))
    column, row = np.nonzero(counts)
    many = counts[column, row]
    magnitude = np.log10(many)
    top = float(np.ceil(magnitude.max())) or 1.0
    fig = figure(
        420,
        xaxis=axis("prompt (tokens, logarithmic)", type="log", dtick=1),
        yaxis=axis("output (tokens, logarithmic)", type="log", dtick=1),
    )
    ticks = list(range(int(top) + 1))
    fig.add_scatter(
        x=np.sqrt(x_edges[column] * x_edges[column + 1]),
        y=np.sqrt(y_edges[row] * y_edges[row + 1]),
        mode="markers",
        marker={
            "symbol": "square",
            "size": 8,
            "color": magnitude,
            "cmin": 0,
            "cmax": top,
            "colorscale": DENSE,
            "colorbar": {
                "title": {"text": "requests"},
                "tickvals": ticks,
                "ticktext": [f"{10**tick:,}" for tick in ticks],
                "thickness": 12,
            },
        },
        customdata=many,
        hovertemplate="%{customdata:,} requests of about %{x:,.3~s} + %{y:,.3~s}<extra></extra>",
    )
    return Chart("density", "How prompts and outputs go together", fig, _thirds(prompt, output))


def _thirds(prompt: Ints, output: Ints) -> Table:
    """Requests by thirds of both lengths."""
    bounds = [np.percentile(tokens, (100 / 3, 200 / 3)) for tokens in (prompt, output)]
    of = [
        np.searchsorted(bound, tokens)
        for bound, tokens in zip(bounds, (prompt, output), strict=True)
    ]
    names = ("short", "middle", "long")
    rows = tuple(
        (
            f"{names[i]} prompts",
            *(f"{int(((of[0] == i) & (of[1] == j)).sum()):,}" for j in range(3)),
        )
        for i in range(3)
    )
    limits = [" and ".join(f"{one:,.0f}" for one in bound) for bound in bounds]
    head = (f"requests (thirds at {limits[0]} prompt, {limits[1]} output tokens)",
            *(f"{name} outputs" for name in names))  # fmt: skip
    return Table(head, rows)


def _lengths(trace: Trace, whole: Trace | None) -> Chart:
    fig = figure(
        320,
        xaxis=axis("tokens (logarithmic)", type="log", dtick=1),
        yaxis=axis("requests within (%)", range=[0, 101]),
        showlegend=True,
        legend={"orientation": "h", "y": 1.08, "x": 0},
    )
    rows = []
    for number, (name, column) in enumerate(
        (("prompt", "prompt_tokens"), ("output", "output_tokens"))
    ):
        shown = [("", trace, "solid")] + ([(" before the steps", whole, "dot")] if whole else [])
        for said, source, dash in shown:
            tokens = getattr(source, column)
            values, ranks = curve(tokens.astype(np.float64), 300)
            fig.add_scatter(
                x=values, y=ranks / len(tokens) * 100, name=name + said, mode="lines",
                line={"color": stroke(number).color, "dash": dash, "width": 1.8, "shape": "hv"},
                hovertemplate="%{y:.1f} % within %{x:,.4~g} tokens",
            )  # fmt: skip
            ranked = np.percentile(tokens, QUANTILES).tolist()
            rows.append((name + said, *(f"{value:,.0f}" for value in ranked)))
    table = Table(("tokens", *(f"p{one}" for one in QUANTILES)), tuple(rows))
    return Chart("lengths", "How long prompts and outputs are", fig, table)


def _sizes(turns: Turns) -> Chart:
    requests = np.bincount(turns.session)
    bounds = [1, 2, 3, 5, 9, 17, 33, 65, 129, 257, int(requests.max()) + 1]
    bounds = [one for one in bounds if one <= bounds[-1]]
    names, counts = [], []
    for start, end in pairwise(bounds):
        if start < end:
            names.append(f"{start:,}" if end == start + 1 else f"{start:,} to {end - 1:,}")
            counts.append(int(((requests >= start) & (requests < end)).sum()))
    fig = figure(260, xaxis=axis("requests of a session", type="category"), yaxis=axis("sessions"))
    fig.add_bar(x=names, y=counts, marker={"color": stroke(3).color},
                hovertemplate="%{y:,} sessions of %{x} requests<extra></extra>")  # fmt: skip
    rows = tuple((name, f"{count:,}") for name, count in zip(names, counts, strict=True))
    table = Table(("requests of a session", "sessions"), rows)
    return Chart("sessions", "How many requests sessions have", fig, table)


def _pauses(turns: Turns) -> Chart:
    pauses = turns.delay_s[np.diff(turns.offsets) > 0]
    values, ranks = curve(pauses, 300)
    fig = figure(
        300,
        xaxis=axis("pause before a request (s, logarithmic)", type="log", dtick=1),
        yaxis=axis("pauses within (%)", range=[0, 101]),
    )
    shown = values > 0
    fig.add_scatter(
        x=values[shown], y=ranks[shown] / len(pauses) * 100, mode="lines",
        line={"color": stroke(2).color, "width": 1.8, "shape": "hv"},
        hovertemplate="%{y:.1f} % within %{x:,.4~g} s<extra></extra>",
    )  # fmt: skip
    ranked = np.percentile(pauses, QUANTILES).tolist()
    table = Table(("", *(f"p{one}" for one in QUANTILES)),
                  (("pause (s)", *(f"{value:,.4g}" for value in ranked)),))  # fmt: skip
    return Chart("pauses", "How long people think and tools run", fig, table)


def _bars(names: list[str], series: list[tuple[str, list[float]]], title: str) -> go.Figure:
    fig = figure(
        300,
        xaxis=axis(title, type="category"),
        yaxis=axis("blocks named before (%)", range=[0, 101]),
        showlegend=True,
        legend={"orientation": "h", "y": 1.1, "x": 0},
        barmode="group",
    )
    for number, (name, values) in enumerate(series):
        fig.add_bar(x=names, y=values, name=name, marker={"color": stroke(3 * number).color},
                    hovertemplate="%{y:.1f} %")  # fmt: skip
    return fig


def _reuse_by_turn(turns: Turns, reuse: Reuse) -> Chart:
    names, anybody, own, rows = [], [], [], []
    for name, start, end in GROUPS:
        mine = (turns.turn >= start) & (turns.turn < (np.inf if end is None else end))
        if not mine.any():
            continue
        blocks, full = int(reuse.blocks[mine].sum()), int(reuse.full[mine].sum())
        names.append(name)
        anybody.append(_share(reuse.seen[mine], blocks))
        own.append(0.0 if reuse.reused is None else _share(reuse.reused[mine], full))
        rows.append((name, f"{int(mine.sum()):,}", f"{blocks:,}", f"{anybody[-1]:.2f}",
                     f"{own[-1]:.2f}"))  # fmt: skip
    series = [("by any request", anybody), ("by its own line, of full blocks", own)]
    fig = _bars(names, series, "turn of its line")
    head = ("turn", "requests", "blocks", "named before by any (%)", "by its own line (%)")
    return Chart("reuse", "Blocks that were named before, by turn", fig, Table(head, tuple(rows)))


def _reuse_over_time(trace: Trace, reuse: Reuse) -> Chart:
    parts = np.array_split(np.arange(len(trace)), min(10, len(trace)))
    names, shares, rows = [], [], []
    for part in parts:
        blocks = int(reuse.blocks[part].sum())
        start, end = trace.arrival_s[part[0]], trace.arrival_s[part[-1]]
        names.append(f"{start:,.4g} to {end:,.4g} s")
        shares.append(_share(reuse.seen[part], blocks))
        rows.append((names[-1], f"{len(part):,}", f"{blocks:,}", f"{shares[-1]:.2f}"))
    fig = _bars(names, [("by any request", shares)], "tenths of the requests, in order of arrival")
    head = ("arrival", "requests", "blocks", "named before (%)")
    return Chart("reuse", "Blocks that were named before, over time", fig, Table(head, tuple(rows)))


def _share(part: NDArray[Any], of: int) -> float:
    return 100 * int(part.sum()) / of if of else 0.0


NOTES = {
    "arrivals": f"Requests in {BINS} equal spans of time, by their stamps.",
    "density": f"Each cell is a pair of lengths, {CELLS} by {CELLS} on logarithmic axes.",
    "lengths": "The share of requests that are at most so long.",
    "sessions": "A session's own requests and those of its sub-agents together.",
    "pauses": "From an answer to the request that waited for it: thinking, or a tool.",
    "reuse": "A block counts where all blocks before it in the prompt were named by an earlier "
    "request too: what an unlimited cache would hold.",
}
