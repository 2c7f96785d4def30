"""A trace on one page: arrivals, lengths, sessions, reuse, and what a slice leaves out."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from reports.arrays import Arrays
from reports.assets import plotly_js
from reports.build import check_name
from reports.environment import environment
from reports.language import LANGUAGES, current
from reports.traces.figures import NOTES, charts
from reports.traces.left_out import left_out
from reports.traces.spoken import spoken, spoken_table
from workloads.describe import DEFINITIONS, describe
from workloads.outgoing import visible
from workloads.reuse import Reuse
from workloads.schema import Trace
from workloads.show import facts
from workloads.write import replacing


def write_trace_page(
    out: Path,
    trace: Trace,
    reuse: Reuse | None = None,
    whole: Trace | None = None,
    steps: Sequence[str] = (),
) -> None:
    """Write the page of a trace to `out`; `whole` and `steps` are what it was made from.

    The same trace gives the same bytes. Raises InputError for a name that doesn't end in .html, and
    where the file can't be written.
    """
    check_name(out)
    page = render(trace, reuse, whole, steps)
    with replacing(out) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def render(
    trace: Trace, reuse: Reuse | None, whole: Trace | None, steps: Sequence[str] = ()
) -> str:
    """The page's text."""
    arrays = Arrays()
    drawn = [spoken(chart) for chart in charts(trace, reuse, whole)]
    description = describe(trace, reuse)
    text = (
        environment()
        .get_template("trace.html.j2")
        .render(
            title=visible(trace.name),
            language=LANGUAGES[current()],
            facts=[(name, visible(value)) for name, value in facts(description)],
            steps=[visible(step) for step in steps],
            left_out=None
            if whole is None
            else spoken_table(left_out(describe(whole), description)),
            charts=drawn,
            notes=NOTES,
            heights={chart.id: chart.figure.layout.height for chart in drawn},
            figures={chart.id: Markup(arrays.figure(chart.figure)) for chart in drawn},
            arrays=Markup(arrays.all()),
            definitions=DEFINITIONS,
            plotly_js=Markup(plotly_js()),
        )
    )
    return str(text)
