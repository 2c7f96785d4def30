"""A trace's charts and tables in the language spoken; English is what they are made in."""

from typing import Any

from reports.charts import Chart
from reports.language import current, retold
from reports.table import Table

TEXTS = ("text", "name", "hovertemplate")
"""Fields of plotly's figures that are read by people."""


def spoken(chart: Chart) -> Chart:
    """The chart with its name, axes, key, hover words and table by the catalogue."""
    if current() == "en":
        return chart
    figure = chart.figure
    figure.layout.update(_retold(figure.layout.to_plotly_json()))
    for trace in figure.data:
        trace.update({name: retold(trace[name]) for name in TEXTS if isinstance(trace[name], str)})
        for side in ("x", "y"):
            if isinstance(trace[side], list | tuple) and all(
                isinstance(v, str) for v in trace[side]
            ):
                trace[side] = [retold(value) for value in trace[side]]
        if trace.type == "scatter" and trace.marker.colorbar.title.text:
            trace.marker.colorbar.title.text = retold(trace.marker.colorbar.title.text)
    return Chart(chart.id, retold(chart.name), figure, spoken_table(chart.table))


def spoken_table(table: Table | None) -> Table | None:
    """Its heads and cells by the catalogue."""
    if table is None:
        return None
    rows = tuple(tuple(map(retold, row)) for row in table.rows)
    return Table(tuple(map(retold, table.head)), rows)


def _retold(part: Any, name: str = "") -> Any:
    if isinstance(part, dict):
        return {key: _retold(value, key) for key, value in part.items()}
    return retold(part) if name in TEXTS and isinstance(part, str) else part
