"""A hundred hostile texts through a sweep's and a search's page, tables and terminal lines."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reports.figures.frontier import load_figure
from reports.figures.sweep import sweep_figure
from reports.frontier import lines_of, rows_of, varied, write_frontier
from reports.language import speaking
from reports.load import load_runs
from reports.sweep import AXES, Sweep
from sim.sweep.table import write_table
from tests.fuzz.mutate import CASES
from tests.fuzz.test_hostile import TEXTS
from tests.fuzz.test_hostile_outputs import (
    RAW,
    SOME,
    as_name,
    harmless,
    in_terminal,
    obeyed_by_nobody,
)
from tests.made_up import write_model
from tests.reports.browsing import Opens, browser, needs_chromium, opens, tab
from tests.reports.synthetic import Spec, write_folder

__all__ = ["browser", "opens", "tab"]  # fixtures

SETTINGS = ["policy", "gpu", "model", "request_rate", "cost"]
LEVEL = {"slo_ttft_ms_p99": 2000.0}
A_PAGE = 10


def columns(texts: list[str]) -> dict[str, list[Any]]:
    """A sweep's table with the texts in every place that a name can come to, at two rates each."""
    rows = [
        {
            "trace": text, "policy": text, "gpu": text, "model": f"{text} model", "cost": text,
            "request_rate": rate, "error": None if rate < 3 else text, "slo_met": int(rate < 2),
            "slo_ttft_ms_p99": 100.0 * rate + number, "goodput": rate, "gpus": 1 + number,
        }
        for number, text in enumerate(texts) for rate in (1.0, 2.0, 3.0)
    ]  # fmt: skip
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_tables(tmp_path: Path) -> None:
    """Both have every row; no cell of CSV is a formula or holds a control character."""
    texts = [*TEXTS, "=1+1", "@x", "caf\udce9", "\ud800"]
    write_table(columns(texts), tmp_path)
    text = (tmp_path / "sweep.csv").read_bytes().decode()
    assert not RAW.search(text)
    rows = list(csv.reader(text.splitlines()))
    assert {len(row) for row in rows} == {len(columns(texts))}
    assert len(rows) == 1 + 3 * len(texts)
    assert [cell for row in rows for cell in row if cell[:1] in "=+-@" and cell] == []
    held = pq.read_table(tmp_path / "sweep.parquet")["policy"].to_pylist()
    assert held[::3][: len(TEXTS)] == TEXTS
    assert held[-6::3] == ["caf\\xe9", "\\ud800"]


@needs_chromium
@pytest.mark.parametrize("spoken", ["en", "zh"])
def test_pages(opens: Opens, tmp_path: Path, spoken: str) -> None:
    """Drawn from a table: lines, heat map and frontier, with an answer above them."""
    texts = TEXTS if CASES >= 100 else TEXTS[:: len(TEXTS) // A_PAGE]
    for first in range(0, len(texts), A_PAGE):
        some = texts[first : first + A_PAGE]
        with speaking(spoken):
            page = write_frontier(columns(some), SETTINGS, LEVEL, tmp_path / "page.html", some)
        assert not RAW.search(page.read_text(encoding="utf-8"))
        opened = opens(page)
        opened.page.evaluate("drawAll(false)")
        assert opened.page.locator(".chart:has(.main-svg)").count() == 3
        assert opened.messages == []
        harmless(opened)


FORMAT = "%{customdata} as it is"


def test_no_name_is_a_format(tmp_path: Path) -> None:
    """In lines of a table and of runs that differ in a limit: names are told beside the format."""
    folder = write_folder(tmp_path / "run", Spec("p", 24, "block", requests=20, samples=40))
    (run,) = load_runs([folder])
    lines = lines_of(rows_of(columns([FORMAT, "b"])), varied(columns([FORMAT, "b"]), SETTINGS))
    for figure, _ in (
        sweep_figure(Sweep(AXES[0], {FORMAT: [(4, run), (8, run)]})),
        load_figure(lines, "request_rate", list(LEVEL), LEVEL),
    ):
        traces = figure.to_plotly_json()["data"]
        assert any(FORMAT in str(trace.get("meta")) for trace in traces)
        assert not any(FORMAT in str(trace.get("hovertemplate")) for trace in traces)


@needs_chromium
def test_commands(opens: Opens, tmp_path: Path) -> None:
    """Traces and models of such names, swept and searched, one policy among them no policy."""
    asked, folders = [], []
    for number, text in enumerate(TEXTS if CASES >= 100 else SOME[-1:]):
        trace = tmp_path / f"{as_name(text)}.csv"
        trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,6\n")
        model = write_model(tmp_path / "models" / as_name(text), source=text)
        system = [str(trace), "--model", str(model.parent), "--gpu", "a100-40gb"]
        swept, searched = tmp_path / f"swept-{number}", tmp_path / f"searched-{number}"
        asked += [
            ["sweep", *system, "--policy", "paging", "--policy", f"{text} [/red]", "--jobs", "1",
             "--request-rate", "1,2", "-o", str(swept)],
            ["search", *system, "--slo", "ttft_p99=1s", "--over", "request_rate=1:2",
             "-o", str(searched)],
        ]  # fmt: skip
        folders += [swept, searched]
    obeyed_by_nobody(in_terminal(tmp_path, asked))
    for folder in folders:
        assert not RAW.search((folder / "sweep.csv").read_text(encoding="utf-8"))
        for line in (folder / "runs.jsonl").read_bytes().splitlines():
            json.loads(line)
        page = folder / "frontier.html"
        assert not RAW.search(page.read_text(encoding="utf-8"))
        harmless(opens(page))
