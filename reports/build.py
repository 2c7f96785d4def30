"""Runs in, one HTML file out: self-contained, offline, the same bytes for the same runs."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from reports import comparison, formats, sections, theme
from reports.figures.latency import latency
from reports.figures.load_over_time import load_over_time
from reports.figures.memory_over_time import memory_over_time
from reports.figures.memory_shares import memory_shares
from reports.figures.time_split import PARTS, time_split
from reports.latency import end_to_end, time_per_output_token, time_to_first_token
from reports.load import Run, load_runs, uniquely_labelled
from reports.validation import Validation, by_policy, load_validation
from reports.verdict import RULE, comparable, verdict
from workloads.errors import InputError
from workloads.write import replacing

POINTS = 11_000
"""Rows of a time series over all runs together: bounds the file's size, whatever the runs' length.

A row of the memory chart takes 130 bytes of the file, so this is 1.4 MB."""

LATENCIES = (
    ("time to first token", "s", 1.0, time_to_first_token),
    ("time per output token", "ms", 1000.0, time_per_output_token),
    ("end-to-end latency", "s", 1.0, end_to_end),
)


class Chart(NamedTuple):
    """A figure with the fixed id of its place in the page."""

    id: str
    height: int
    data: str  # strict JSON, safe inside a script element


def write_report(
    runs: Sequence[Path | Run],
    out: Path,
    title: str | None = None,
    validation: Path | None = None,
) -> Path:
    """Write the report of these runs (loaded ones, or folders as `load_runs` takes them) to `out`.

    `validation` is a file of predicted against measured numbers, shown before anything else.
    The file appears whole or not at all. Raises InputError where a folder can't be read or the
    file can't be written, and for a name that doesn't end in .html: it may be a trace's.
    """
    check_name(out)
    loaded: list[Run] = []
    for run in runs:
        loaded += [run] if isinstance(run, Run) else load_runs([run])
    judged = None if validation is None else load_validation(validation)
    page = render(uniquely_labelled(loaded), title, judged)
    with _parents(out), replacing(out) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return out


def check_name(out: Path) -> None:
    """Raise InputError unless it names an HTML file."""
    if out.suffix.lower() != ".html":
        raise InputError(f"{out}: expected the name of a file that ends in .html")


@contextmanager
def _parents(out: Path) -> Iterator[None]:
    """Make the folders above `out` that don't exist; they go again if the block fails."""
    absent: list[Path] = []
    try:
        absent += [folder for folder in out.parents if not folder.exists()]
        out.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        for folder in absent:  # the deepest first
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            blocked = isinstance(error, FileExistsError)  # mkdir's word for a file in its way
            reason = "Not a directory" if blocked else error.strerror or error
            raise InputError(f"{out}: cannot be written: {reason}") from None
        raise


def render(
    runs: Sequence[Run], title: str | None = None, validation: Validation | None = None
) -> str:
    """The page. It holds neither the time nor the place of its making."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        title=title or sections.title(runs),
        runs=runs,
        strokes=[theme.stroke(i) for i in range(len(runs))],
        dashes=theme.SVG_DASHES,
        uses=theme.USES,
        parts=PARTS,
        verdict=verdict(runs),
        rule=RULE,
        facts=sections.shared(runs, sections.facts),
        differing=sections.differing(runs),
        table=comparison.rows([run.info.metrics for run in runs], comparable=comparable(runs)),
        validation=validation,
        judged=by_policy(validation.rows) if validation else {},
        charts={chart.id: chart for chart in _charts(runs)},
        ledgers=sections.shared(runs, sections.ledger),
        layer_groups=sections.shared(runs, lambda run: run.info.pool.groups),
        refused=sections.refused(runs),
        costs=sections.shared(runs, sections.constants),
        traces=sections.shared(runs, sections.provenance),
        versions=sections.shared(runs, sections.versions),
        commands=sections.shared(runs, lambda run: run.info.command),
        seeds=sections.shared(runs, lambda run: run.info.seed),
        definitions=sections.definitions(runs),
        text=formats,
        plotly_js=Markup(get_plotlyjs()),
    )
    return str(page)


def _charts(runs: Sequence[Run]) -> Iterator[Chart]:
    """The charts that have something to show."""
    points = max(60, min(2400, POINTS // len(runs)))
    if any(run.count("finished") or run.count("truncated") for run in runs):
        yield _chart("memory-shares", memory_shares(runs))
        yield _chart("memory-over-time", memory_over_time(runs, points))
        yield _chart("load-over-time", load_over_time(runs, points))
        yield _chart("time-split", time_split(runs))
    for title, unit, per_s, measure in LATENCIES:
        known = [(run.label, measure(run)) for run in runs]
        if any(len(values.values) for _, values in known):
            name = title.replace(" ", "-")
            yield _chart(name, latency(title, unit, per_s, known, points // 4))


def _chart(id: str, figure: go.Figure) -> Chart:
    return Chart(id, figure.layout.height, Markup(_json(figure)))


def _json(figure: go.Figure) -> str:
    # Read back and written again: plotly's encoder would let NaN through, this one refuses it.
    content: Any = json.loads(figure.to_json(engine="json"))
    strict = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return strict.replace("<", "\\u003c")
