"""`traces describe -o page.html`: what stands in it, against facts found otherwise."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from reports.charts import Chart
from reports.traces.cli import describe
from reports.traces.figures import charts
from reports.traces.page import write_trace_page
from workloads import read_trace
from workloads.errors import InputError
from workloads.read import read_counted
from workloads.schema import Provenance, Trace
from workloads.steps import apply_steps


def drawn(trace: Trace, **more: object) -> dict[str, Chart]:
    return {chart.id: chart for chart in charts(trace, None, None)}


def test_every_request_is_in_the_density_and_in_the_arrivals() -> None:
    trace = read_trace("azure-2023-code")
    found = drawn(trace)
    assert int(found["density"].figure.data[0].customdata.sum()) == len(trace) == 8819
    rates = np.asarray(found["arrivals"].figure.data[0].y)
    assert rates.sum() * trace.arrival_s[-1] / len(rates) == pytest.approx(8819)
    table = found["arrivals"].table
    assert table is not None
    assert sum(int(row[1].replace(",", "")) for row in table.rows) == 8819
    thirds = found["density"].table
    assert thirds is not None
    cells = [int(cell.replace(",", "")) for row in thirds.rows for cell in row[1:]]
    assert sum(cells) == 8819


def test_density_by_hand() -> None:
    """Three requests of 10 + 100 tokens and one of 1,000 + 1: two cells, of 3 and of 1."""
    prompts, outputs = np.array([10, 10, 10, 1000]), np.array([100, 100, 100, 1])
    trace = Trace("made", np.array([0.0, 1, 2, 3]), prompts, outputs, Provenance("made", 4))
    cells = drawn(trace)["density"].figure.data[0]
    assert sorted(cells.customdata.tolist()) == [1, 3]
    many = int(np.argmax(cells.customdata))
    assert cells.x[many] == pytest.approx(10, rel=0.12)  # a cell is a 40th of two decades wide
    assert cells.y[many] == pytest.approx(100, rel=0.12)


def test_sessions_and_reuse_of_the_shipped_conversations(tmp_path: Path) -> None:
    """62 sessions; 310,928 of 374,471 full blocks named by their own line before: the data's
    published facts, put together again from the turns' shares."""
    trace, reuse = read_counted("coding-agents")
    assert isinstance(trace, Trace)
    found = {chart.id: chart for chart in charts(trace, reuse, None)}
    assert sum(found["sessions"].figure.data[0].y) == 62
    assert reuse is not None
    assert reuse.reused is not None
    table = found["reuse"].table
    assert table is not None
    assert sum(int(row[1].replace(",", "")) for row in table.rows) == 534
    assert trace.turns is not None
    full = [
        int(reuse.full[(trace.turns.turn >= low) & (trace.turns.turn < high)].sum())
        for low, high in ((0, 1), (1, 2), (2, 5), (5, 10), (10, 10**9))
    ]
    shares = [float(row[4]) for row in table.rows]
    named = sum(count * share / 100 for count, share in zip(full, shares, strict=True))
    assert sum(full) == 374_471
    assert named == pytest.approx(310_928, rel=1e-4)
    write_trace_page(tmp_path / "page.html", trace, reuse)
    page = (tmp_path / "page.html").read_text()
    for id in ("arrivals", "density", "lengths", "sessions", "pauses", "reuse"):
        assert f'data-chart="{id}"' in page
        assert f'<section id="about-{id}">' in page
    assert "310,928 of 374,471 full blocks, 83.03%" in page
    assert "default-src 'none'" in page  # nothing is fetched
    write_trace_page(tmp_path / "again.html", trace, reuse)
    assert (tmp_path / "again.html").read_text() == page


def test_what_a_slice_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first 100 of Azure's code trace: 8,719 requests are gone, 98.9 %, and their tokens."""
    whole = read_trace("azure-2023-code")
    describe("azure-2023-code", then=["first=100"], output=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    rows = re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td><td>([^<]*)</td>'
                      r"<td>([^<]*)</td><td>([^<]*)</td>", page)  # fmt: skip
    found = {name: cells for name, *cells in rows}
    assert found["requests"] == ["8,819", "100", "8,719", "98.9"]
    kept, all_of_it = int(whole.prompt_tokens[:100].sum()), int(whole.prompt_tokens.sum())
    share = f"{100 * (all_of_it - kept) / all_of_it:.1f}"
    assert found["prompt tokens"] == [f"{all_of_it:,}", f"{kept:,}", f"{all_of_it - kept:,}", share]
    median = np.median(whole.prompt_tokens[:100])
    assert found["prompt p50 (tokens)"][:2] == ["1,469", f"{median:,.4g}"]
    assert "<code>first=100</code>" in page
    assert f"{tmp_path / 'page.html'}" in capsys.readouterr().out


def test_on_the_terminal_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    describe("azure-2023-code", then=["first=100", "thin=0.5:3"], as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["requests"] == len(
        apply_steps(read_trace("azure-2023-code"), ["first=100", "thin=0.5:3"])
    )


@pytest.mark.parametrize(
    ("trace", "output", "said"),
    [
        ("azure-2023-code", "page.csv", "ends in .html"),
        ("arxiv-lengths", "page.html", "has lengths but no arrival times"),
    ],
)
def test_what_makes_no_page(tmp_path: Path, trace: str, output: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        describe(trace, output=tmp_path / output)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prompts", [[5], [5, 5], [1, 2**53]])
def test_odd_lengths(tmp_path: Path, prompts: list[int]) -> None:
    """One request, all alike, and as long as can be."""
    rows = len(prompts)
    trace = Trace(
        "<b>odd</b>", np.zeros(rows), np.array(prompts), np.ones(rows, np.int64),
        Provenance("</script>", rows),
    )  # fmt: skip
    write_trace_page(tmp_path / "page.html", trace)
    page = (tmp_path / "page.html").read_text()
    assert "<b>odd" not in page
    assert page.count("</script>") == page.count("<script")
