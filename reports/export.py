"""The comparison as CSV: every metric of every run, the numbers as run.json holds them."""

import csv
import io
from collections.abc import Sequence
from urllib.parse import quote

from reports.load import Run
from reports.service import service
from workloads.outgoing import cell_text


def comparison_csv(runs: Sequence[Run]) -> str:
    """A row a metric, a column a run, behind name, label and unit; absent values are empty.

    Two rows ahead of the metrics say what the first screen does: the offered rate, and whether a
    run keeps up.
    """
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(["metric", "label", "unit", *(cell_text(run.label) for run in runs)])
    loads = [service(run) for run in runs]
    write(["offered_throughput", "Offered", "req/s", *(_number(load.offered) for load in loads)])
    write(["keeps_up", "Keeps up", "", *(str(load.keeps_up).lower() for load in loads)])
    tables = [{metric.name: metric for metric in run.info.metrics} for run in runs]
    known = {name: metric for table in reversed(tables) for name, metric in table.items()}
    for name in dict.fromkeys(name for table in tables for name in table):
        values = [table[name].value if name in table else None for table in tables]
        texts = (name, known[name].label, known[name].unit)
        write([*map(cell_text, texts), *map(_number, values)])
    return out.getvalue()


def _number(value: float | None) -> str:
    """The shortest text that reads back as the same number."""
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(value)


def as_link(text: str) -> str:
    """An address that holds the file itself, for a page without a network."""
    return "data:text/csv;charset=utf-8," + quote(text)
