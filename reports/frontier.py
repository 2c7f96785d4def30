"""The page of a sweep's table: latency against load, what two options make of it, what it costs.

Its rows need not have run folders: the table of `kvtwin sweep` or `kvtwin search` is all it knows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from reports import theme
from reports.arrays import Arrays
from reports.assets import plotly_js
from reports.charts import Chart
from reports.environment import environment
from reports.figures.frontier import heat_map, load_figure, pareto, plain_name
from reports.formats import listed
from reports.language import LANGUAGES, current, tr
from workloads.write import replacing

Columns = Mapping[str, Sequence[Any]]
LOADS = ("request_rate", "users", "concurrency")
PAGE = "frontier.html"
LATENCIES = ("ttft_ms_p99", "tpot_ms_p50")
MOST_LINES = 12


class Varied(NamedTuple):
    """What differs between rows: the load among them, and the other options."""

    load: str | None
    others: tuple[str, ...]


class Line(NamedTuple):
    """One configuration along the load: its name and its rows, ascending."""

    label: str
    rows: list[dict[str, Any]]


def write_frontier(
    columns: Columns,
    settings: Sequence[str],
    limits_ms: Mapping[str, float],
    out: Path,
    answer: Sequence[str] = (),
) -> Path:
    """Write the page to `out`, which is returned.

    `settings` names the columns that are options; `limits_ms` is the service level by metric, such
    as {"slo_ttft_ms_p99": 2000}; `answer` is what a search says.
    """
    page = render(columns, settings, limits_ms, answer)
    with replacing(out) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return out


def render(
    columns: Columns,
    settings: Sequence[str],
    limits_ms: Mapping[str, float],
    answer: Sequence[str] = (),
) -> str:
    """The page as text."""
    rows = rows_of(columns)
    found = varied(columns, settings)
    lines = lines_of(rows, found)
    tried = lines_of(tried_rows(columns), found)
    charts = list(_charts(rows, found, lines, limits_ms))
    arrays = Arrays()
    figures = {chart.id: Markup(arrays.figure(chart.figure)) for chart in charts}
    names = sorted(set(columns["trace"])) if "trace" in columns else []
    return (
        environment()
        .get_template("frontier.html.j2")
        .render(
            language=LANGUAGES[current()],
            title=tr(
                "What {traces} can be served with",
                traces=listed([str(name) for name in names]) or tr("the trace"),
            ),
            verdicts=[holds(line, found.load) for line in tried]
            if found.load and limits_ms
            else [],
            answer=answer,
            runs=len(rows),
            failed=len(columns.get("error", ())) - len(rows),
            charts=charts,
            heights={chart.id: chart.figure.layout.height for chart in charts},
            figures=figures,
            arrays=Markup(arrays.all()),
            labels=[line.label for line in lines[:MOST_LINES]],
            strokes=[theme.stroke(i) for i in range(len(lines))],
            dashes=theme.SVG_DASHES,
            hidden=max(0, len(lines) - MOST_LINES),
            plotly_js=Markup(plotly_js()),
        )
    )


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Rows that ran whole: neither impossible nor stopped early."""
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return [
        row for row in rows if row.get("error") is None and row.get("lost_at_s") is None
        and (row.get("draw") or 0) == 0
    ]  # fmt: skip


def tried_rows(columns: Columns) -> list[dict[str, Any]]:
    """Rows that a level was judged on: those stopped because it was lost, too, and every draw."""
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return [row for row in rows if row.get("error") is None]


def varied(columns: Columns, settings: Sequence[str]) -> Varied:
    """Options with more than one value, the load apart."""
    names = [
        name for name in settings
        if name in columns and len({str(value) for value in columns[name]}) > 1
    ]  # fmt: skip
    load = next((name for name in LOADS if name in names), None)
    return Varied(load, tuple(name for name in names if name not in LOADS and name != "seed"))


def lines_of(rows: Sequence[dict[str, Any]], found: Varied) -> list[Line]:
    """A line a configuration, in order of first appearance."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        label = " · ".join(_named(name, row[name]) for name in found.others) or tr("all runs")
        lines.setdefault(label, []).append(row)
    load = found.load
    if load is not None:
        for line in lines.values():
            line.sort(key=lambda row: row[load])
    return [Line(label, line) for label, line in lines.items()]


def _named(name: str, value: Any) -> str:
    return str(value) if name in ("policy", "gpu", "model") else f"{name} {value}"


def holds(line: Line, load: str | None) -> str:
    """Up to where a configuration meets its level: a load holds where every run of it does."""
    assert load is not None, "a load varies"
    bad = {row[load] for row in line.rows if not row.get("slo_met")}
    good = {row[load] for row in line.rows} - bad
    word = tr({"request_rate": "requests/s", "concurrency": "requests at once"}.get(load, load))
    lost = listed([f"{value:g}" for value in sorted(bad)])
    names = {"label": line.label, "load": word}
    if not good:
        return tr("{label}: the level held at no load tried ({lost} {load}).", lost=lost, **names)
    most = f"{max(good):g}"
    if not bad:
        return tr(
            "{label}: the level held at every load tried, up to {most} {load}.", most=most, **names
        )
    return tr(
        "{label}: the highest load that held is {most} {load}; {lost} did not.",
        most=most,
        lost=lost,
        **names,
    )


def _charts(
    rows: Sequence[dict[str, Any]],
    found: Varied,
    lines: Sequence[Line],
    limits_ms: Mapping[str, float],
) -> list[Chart]:
    charts = []
    if found.load is not None and lines:
        latencies = list(limits_ms) or list(LATENCIES)
        figure, table = load_figure(lines[:MOST_LINES], found.load, latencies, limits_ms)
        charts.append(Chart("load", tr("Latency and throughput against load"), figure, table))
    best = "goodput" if limits_ms else "request_throughput"
    if len(found.others) >= 2:
        one, two = sorted(found.others, key=lambda name: -len({str(row[name]) for row in rows}))[:2]
        figure, table = heat_map(rows, one, two, best)
        name = tr(
            "Highest {best} by {one} and {two}",
            best=plain_name(best),
            one=plain_name(one),
            two=plain_name(two),
        )
        charts.append(Chart("heat", name, figure, table))
    cost = "cost_per_hour" if rows and rows[0].get("cost_per_hour") is not None else "gpus"
    if rows and len({row[cost] for row in rows}) > 1:
        figure, table = pareto(rows, found.others, cost, best)
        name = tr("{best} against {cost}", best=plain_name(best), cost=plain_name(cost))
        charts.append(Chart("pareto", name, figure, table))
    return charts
