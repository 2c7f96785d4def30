"""The page of `kvtwin size -o`: where memory goes, and requests at once against their length."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from reports import formats, theme
from reports.arrays import Arrays
from reports.assets import plotly_js
from reports.charts import Chart
from reports.environment import environment
from reports.figures.capacity import capacity
from reports.language import LANGUAGES, current, tr
from reports.run_json import Capacity, LedgerLine


class SizePage(NamedTuple):
    """What the page says; sizes in bytes, each on one GPU."""

    model: str
    gpus: str
    formula: str
    token_bytes: int  # of a long sequence
    sequence_bytes: int  # whatever its length
    notes: tuple[str, ...]
    lines: tuple[LedgerLine, ...]
    curves: tuple[Capacity, ...]
    ranks: int  # data-parallel ones, of which it is of one
    whose: str  # the policy that `binds` and `buys` are of; empty where there is one
    binds: str
    buys: Sequence[tuple[str, int]]  # a change, and the requests at once that it would allow


def formula(text: str) -> str:
    """A token's bytes as a model has them, with the words between its numbers as spoken here."""
    for word in ("shared layers", "layers", "of them", "of scales", "per token", "per sequence"):
        text = text.replace(f" {word}", f" {tr(word)}")
    return text


def _title(page: SizePage) -> str:
    if page.ranks == 1:
        return tr("{model} on {gpus}", model=page.model, gpus=page.gpus)
    return tr(
        "{model} on {gpus}, each of {ranks} data-parallel ranks",
        model=page.model,
        gpus=page.gpus,
        ranks=page.ranks,
    )


def size_page(page: SizePage) -> str:
    """One HTML file that needs nothing else, in the language spoken."""
    drawn, table = capacity(page.curves)
    arrays = Arrays()
    return (
        environment()
        .get_template("size.html.j2")
        .render(
            formula=formula,
            page=page,
            title=_title(page),
            language=LANGUAGES[current()],
            chart=Chart("capacity", tr("Requests at once against their length"), drawn, table),
            height=drawn.layout.height,
            figures={"capacity": Markup(arrays.figure(drawn))},
            arrays=Markup(arrays.all()),
            strokes=[theme.stroke(i) for i in range(len(page.curves))],
            dashes=theme.SVG_DASHES,
            text=formats,
            plotly_js=Markup(plotly_js()),
        )
    )
