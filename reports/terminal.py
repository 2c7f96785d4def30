"""The outcome on a terminal of 80 columns: the verdict, a row a run, where the times are from."""

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from reports import closed
from reports.caveats import caveats, times
from reports.comparison import MetricLike, rows
from reports.formats import listed, number, rate_per_s
from reports.language import current, retold, tr
from reports.load import Run
from reports.replays import named
from reports.sections import shared, warm_up
from reports.service import service
from reports.verdict import verdict
from workloads.console import console

WIDTH = 80

PARTS = re.compile(
    r"\s*（?(?:[\d.,]+ (?:%|[a-zA-Z]+)|[\u2e80-\uffff]|[^\s\u2e80-\uffff]+)[，。；：、！？）]*"
)
"""What a line of Chinese may not break: a word, a number with its unit, a sign, each with the
punctuation behind it."""

TERMINAL = (
    "finished",
    "unfinished",
    "request_throughput",
    "goodput",
    "ttft_ms_p50",
    "ttft_ms_p99",
    "tpot_ms_p50",
    "waiting_mean",
    "num_preemptions",
    "kv_live_of_used_mean",
)
"""What 80 columns hold beside a name; the report has the rest."""

ONLY_IF_ANY = ("unfinished",)
"""Columns that say nothing while they are zero everywhere."""

SHORT = {
    "request_throughput": "Served",
    "waiting_mean": "Waiting",
    "num_preemptions": "Pre-\nempted",
    "kv_live_of_used_mean": "Live\nof used",
}


def print_outcome(runs: Sequence[Run]) -> None:
    """Verdict, table, source of the times and warnings, on stdout."""
    runs = named(runs)
    said = verdict(runs)
    for line in dict.fromkeys((said.headline, *said.details[:2], *said.vital)):
        print("\n".join(wrapped(line)))
    print()
    console().print(summary_table({run.label: run.info.metrics for run in runs}))
    rates = {service(run).offered for run in runs}
    offered = [rate_per_s(rate) for rate in rates if rate is not None]
    if len(rates) == 1 and offered and not any(map(closed.loop, runs)):
        print(tr("Offered: {rate} requests/s.", rate=offered[0]), end=" ")
    print(tr("Times: {source}.", source=tr("; ").join(dict.fromkeys(times(run) for run in runs))))
    for line in (*map(_level, runs), *map(_costs, runs)):
        if line:
            print("\n".join(wrapped(line)))
    for group in shared(runs, warm_up):
        if group.part:
            said_of = f"{group.part[:1].upper()}{group.part[1:]}"
            if not group.everyone:
                said_of = f"{listed(group.labels)}{tr(': ')}{group.part}"
            print("\n".join(wrapped(said_of + tr("."))))
    for warning in dict.fromkeys(line for run in runs for line in caveats(run)):
        print("\n".join(wrapped(tr("warning: {text}", text=warning))))


def _level(run: Run) -> str:
    """Whether the service level holds, and how far off it is; empty where there is none."""
    met, level = run.value("slo_met"), run.info.service_level
    if met is None or level is None:
        return ""
    used = run.value("slo_used_share")
    if used is None:
        said = "{label}: service level {level} doesn't hold, too many requests have no answer."
        return tr(said, label=run.label, level=level.text)
    said = "{label}: service level {level} holds, {used} % of it used."
    if not met:
        said = "{label}: service level {level} doesn't hold, {used} % of it used."
    return tr(said, label=run.label, level=level.text, used=f"{used:,.1f}")


def _costs(run: Run) -> str:
    """Dollars and joules, where prices or watts were given."""
    known = [
        f"{label[:1].lower()}{label[1:]} {number(metric.value, metric.unit)} {tr(metric.unit)}"
        for metric in run.info.metrics
        if metric.name.startswith(("cost_", "energy_")) and (label := retold(metric.label))
    ]
    return f"{run.label}{tr(': ')}{tr(', ').join(known)}" if known else ""


def wrapped(text: str) -> list[str]:
    """The text in lines of at most 80 columns; Chinese breaks between signs."""
    if current() == "en":
        return wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    lines = [""]
    for part in PARTS.findall(text):
        if cell_len(lines[-1] + part.rstrip()) > WIDTH:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return lines


def padded(text: str, width: int, right: bool = False) -> str:
    """The text in so many columns at least; signs of Chinese take two."""
    gap = " " * max(0, width - cell_len(text))
    return gap + text if right else text + gap


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
    table.add_column(tr("policy"), no_wrap=True)
    for row in shown:
        unit = row.unit.replace("requests", "")  # wider than any count of them
        label = retold(SHORT.get(row.name, row.label))
        heading = "\n".join([*label.replace(" ", "\n").split("\n"), *filter(None, [unit])])
        if row.name in SHORT and current() == "en":
            heading = "\n".join(filter(None, [label, unit]))
        table.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    for i, label in enumerate(runs):
        # A spec breaks after its name, commas and modifiers, or it would squeeze the numbers.
        name = label.replace(":", ":\n  ").replace(",", ",\n  ").replace("+", "\n  +")
        cells: list[str | Text] = [name]
        cells += [Text(row.texts[i], "bold green" if row.best[i] else "") for row in shown]
        table.add_row(*cells)
    return table


def _metric(metric: Mapping[str, object] | MetricLike) -> MetricLike:
    if isinstance(metric, Mapping):
        return _Metric(**{name: metric[name] for name in _Metric._fields})  # type: ignore[arg-type]
    return metric
