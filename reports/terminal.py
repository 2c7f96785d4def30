"""The comparison on a terminal: a row a run, the headline metrics as columns."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from reports.comparison import MetricLike, rows
from reports.formats import column
from workloads.console import console

TERMINAL = (
    "finished",
    "truncated",
    "refused",
    "unfinished",
    "kv_live_of_used_mean",
    "running_mean",
    "output_throughput",
    "ttft_ms_p99",
)
"""What 80 columns hold beside a name; the report has the rest."""

ONLY_IF_ANY = ("truncated", "refused", "unfinished")
"""Columns that say nothing while they are zero everywhere."""


def print_summary(
    runs: Mapping[str, Sequence[Mapping[str, object]] | Sequence[MetricLike]],
) -> None:
    """Print `summary_table` on stdout."""
    console().print(summary_table(runs))


class _Metric(NamedTuple):
    name: str
    label: str
    unit: str
    formula: str
    value: float | None


def summary_table(
    runs: Mapping[str, Sequence[Mapping[str, object]] | Sequence[MetricLike]],
) -> Table:
    """Runs by label, each with its metrics as `run.json` holds them (mappings or objects).

    The best value of a column is bold, by the rules of the report's own table.
    """
    metrics = [[_metric(metric) for metric in listed] for listed in runs.values()]
    found = {row.name: row for group in rows(metrics).values() for row in group}
    shown = [
        found[name]
        for name in TERMINAL
        if name in found and (name not in ONLY_IF_ANY or any(found[name].values))
    ]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("policy", no_wrap=True)
    columns = [column(row.values, row.unit) for row in shown]
    for row, (shown_in, _) in zip(shown, columns, strict=True):
        unit = shown_in.replace("requests", "")  # wider than any count of them
        heading = "\n".join([*row.label.split(), *filter(None, [unit])])
        table.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    for i, label in enumerate(runs):
        # A spec breaks after its name and its commas, or long ones would squeeze the numbers.
        cells: list[str | Text] = [label.replace(":", ":\n  ").replace(",", ",\n  ")]
        cells += [
            Text(texts[i], "bold green" if row.best[i] else "")
            for row, (_, texts) in zip(shown, columns, strict=True)
        ]
        table.add_row(*cells)
    return table


def _metric(metric: Mapping[str, object] | MetricLike) -> MetricLike:
    return _Metric(**metric) if isinstance(metric, Mapping) else metric  # type: ignore[arg-type]
