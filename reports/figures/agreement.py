"""Predicted against measured: errors with their tolerances, requests about the diagonal."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from reports.agreement import Pair, judged
from reports.formats import number, shown_unit
from reports.language import tr
from reports.latency import end_to_end, time_to_first_token
from reports.table import Table
from reports.theme import INK, MUTED, axis, figure, stroke
from reports.validation import Validation

BAR = 22


class Verdict(NamedTuple):
    """How a metric that was judged so, or not at all, is drawn and named."""

    color: str
    word: str
    meaning: str


VERDICTS = {
    True: Verdict("#117733", "within", "within tolerance"),
    False: Verdict("#A8321A", "beyond", "beyond tolerance"),
    None: Verdict("#8A8A8A", "", "shown, not judged"),
}

POINTS = 1000
"""Requests drawn a pair; of more, an even sample."""


def error_bars(found: Sequence[Pair], validation: Validation | None) -> tuple[go.Figure, Table]:
    """Signed per cent a metric, coloured by whether it is within tolerance (grey ticks)."""
    rows = [row for row in judged(found, validation) if row.error_percent is not None]
    several = len({row.policy for row in rows}) > 1
    labels = [f"{row.policy} · {tr(row.label)}" if several else tr(row.label) for row in rows]
    fig = figure(
        len(rows) * BAR + 60,
        barmode="overlay",
        bargap=0.35,
        margin={"l": 12, "r": 16, "t": 4, "b": 48},
        xaxis=axis(tr("(predicted − measured) ÷ measured (%)"), zeroline=True, zerolinecolor=MUTED),
        yaxis={"autorange": "reversed", "automargin": True, "tickfont": {"size": 12}},
    )
    fig.add_bar(
        y=labels,
        x=[row.error_percent for row in rows],
        orientation="h",
        marker={"color": [VERDICTS[row.passed].color for row in rows]},
        error_x={
            "type": "data",
            "array": [(row.spread_percent or 0.0) / 2 for row in rows],
            "color": INK,
            "thickness": 1,
            "visible": any(row.spread_percent for row in rows),
        },
        hovertemplate="%{y}: %{x:+.2f} %<extra></extra>",
    )
    for sign in (-1, 1):
        limits = [
            (label, sign * row.tolerance_percent)
            for label, row in zip(labels, rows, strict=True)
            if row.tolerance_percent is not None
        ]
        fig.add_scatter(
            y=[label for label, _ in limits],
            x=[limit for _, limit in limits],
            mode="markers",
            marker={"symbol": "line-ns-open", "size": 14, "color": MUTED},
            hovertemplate=tr("tolerance") + " %{x:+g} %<extra></extra>",
        )
    return fig, table(found, validation)


def table(found: Sequence[Pair], validation: Validation | None) -> Table:
    """Every metric that is judged or shown, and those that were not recorded."""
    head = (tr("run"), tr("metric"), tr("unit"), tr("predicted"), tr("measured"), tr("error (%)"),
            tr("spread (%)"), tr("tolerance (± %)"), tr("verdict"))  # fmt: skip
    rows = []
    for row in judged(found, validation):
        words = "" if row.passed is None else tr(VERDICTS[row.passed].word)
        if row.passed is None and row.tolerance_percent is not None:
            words = tr("not judged")
        rows.append(
            (
                row.policy,
                tr(row.label),
                row.unit if row.unit == "bytes" else shown_unit(row.unit),
                _text(row.predicted, row.unit),
                tr("not recorded") if row.measured is None else _text(row.measured, row.unit),
                "" if row.error_percent is None else f"{row.error_percent:+.2f}",
                "" if row.spread_percent is None else f"{row.spread_percent:.1f}",
                "" if row.tolerance_percent is None else f"{row.tolerance_percent:g}",
                words,
            )
        )
    return Table(head, tuple(rows))


def _text(value: float | None, unit: str) -> str:
    """Bytes to the byte: they are compared for equality."""
    return f"{value:,.0f}" if unit == "bytes" and value is not None else number(value, unit)


def scatter(found: Sequence[Pair], title: str) -> go.Figure:
    """A point a request, predicted over measured, with the line where they agree."""
    measure = time_to_first_token if title == "time to first token" else end_to_end
    fig = figure(
        380,
        margin={"l": 60, "r": 16, "t": 8, "b": 48},
        xaxis=axis(tr("measured {time} (s)", time=tr(title)), rangemode="tozero"),
        yaxis=axis(tr("predicted {time} (s)", time=tr(title)), rangemode="tozero"),
    )
    top = 0.0
    for i, (predicted, measured) in enumerate(found):
        x, y = measure(measured).values, measure(predicted).values
        if len(x) != len(y) or not len(x):
            continue
        rows = np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(np.int64))
        top = max(top, float(x.max()), float(y.max()))
        fig.add_scatter(
            x=x[rows],
            y=y[rows],
            mode="markers",
            name=measured.label,
            marker={"size": 4, "color": stroke(i).color, "opacity": 0.6},
            hovertemplate=tr("measured %{x:,.4~g} s, predicted %{y:,.4~g} s"),
        )
    fig.add_scatter(
        x=[0, top], y=[0, top], mode="lines", name=tr("predicted = measured"), hoverinfo="skip",
        line={"color": MUTED, "width": 1, "dash": "dash"},
    )  # fmt: skip
    return fig
