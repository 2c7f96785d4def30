"""Runs in, one HTML file out: self-contained, offline, the same bytes for the same runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from markupsafe import Markup

from reports import comparison, export, formats, sections, theme
from reports.agreement import pairs
from reports.arrays import Arrays
from reports.assets import plotly_js
from reports.caveats import caveats
from reports.charts import SHOWN, charts, shown
from reports.environment import environment
from reports.figures import time_split, waterfall
from reports.figures.agreement import VERDICTS
from reports.grid import find_grid
from reports.language import LANGUAGES, Language, current, speaking, tr
from reports.load import Run, knows_parts, load_runs, samples_kv, uniquely_labelled
from reports.ranking import limitation
from reports.replays import hidden_table, named, replays
from reports.sweep import find_sweep, in_order
from reports.validation import Validation, load_validation
from reports.verdict import RULE, comparable, verdict
from workloads.errors import InputError
from workloads.write import replacing


def write_report(
    runs: Sequence[Path | Run],
    out: Path,
    title: str | None = None,
    validation: Path | None = None,
    language: Language | None = None,
) -> Path:
    """Write the report of these runs (loaded ones, or folders as `load_runs` takes them) to `out`.

    `validation` is a file of predicted against measured numbers, shown before anything else; the
    language is the one spoken now if none is given.
    The file appears whole or not at all. Raises InputError where a folder can't be read or the
    file can't be written, and for a name that doesn't end in .html: it may be a trace's.
    """
    check_name(out)
    loaded: list[Run] = []
    for run in runs:
        loaded += [run] if isinstance(run, Run) else load_runs([run])
    judged = None if validation is None else load_validation(validation)
    with speaking(language or current()):
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
    """The page, in the language spoken. It holds neither the time nor the place of its making."""
    runs = named(runs)
    if swept := find_sweep(runs):
        runs = in_order(swept)
    elif paired := pairs(runs):
        runs = [run for pair in paired for run in pair]
    arrays = Arrays()
    drawn = list(charts(runs, validation))
    figures = {chart.id: Markup(arrays.figure(chart.figure)) for chart in drawn}
    table = comparison.rows([run.info.metrics for run in runs], comparable=comparable(runs))
    page = (
        environment()
        .get_template("report.html.j2")
        .render(
            title=title or sections.title(runs),
            language=LANGUAGES[current()],
            runs=runs,
            strokes=[theme.stroke(i) for i in range(len(runs))],
            drawn_runs=shown(runs),
            dashes=theme.SVG_DASHES,
            verdicts=VERDICTS.values(),
            lumped=any(samples_kv(run) and not knows_parts(run) for run in runs),
            uses=theme.SHOWN_USES if "cached" in str(figures.get("memory-shares")) else theme.USES,
            parts=time_split.PARTS,
            lived=waterfall.PARTS,
            grid=find_grid(runs),
            curves=next((chart.figure.data for chart in drawn if chart.id == "capacity"), ()),
            many=len(runs) > SHOWN,
            pairs=pairs(runs),
            sweep=swept,
            hidden=hidden_table(twice) if (twice := replays(runs)) else None,
            verdict=verdict(runs, validation),
            warnings=sections.shared(runs, caveats),
            limitation=limitation,
            rule=tr(RULE),
            facts=sections.facts_by_run(runs),
            differing=sections.differing(runs),
            table=table,
            csv=export.as_link(export.comparison_csv(runs)),
            validation=validation,
            charts={chart.id: chart for chart in drawn},
            heights={chart.id: chart.figure.layout.height for chart in drawn},
            figures=figures,
            arrays=Markup(arrays.all()),
            of_each=sections.shared(runs, sections.of_each),
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
            plotly_js=Markup(plotly_js()),
        )
    )
    return str(page)
