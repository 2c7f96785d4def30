"""The page of a sweep's table: levels, knees, the heat map, the frontier, from numbers by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports.figures.frontier import heat_map, knee, pareto
from reports.frontier import holds, lines_of, render, rows_of, tried_rows, varied, write_frontier
from reports.language import speaking
from tests.reports.test_language import english

SETTINGS = ["policy", "gpu", "request_rate", "max_num_seqs", "seed"]


def table() -> dict[str, list[Any]]:
    """Two policies at four rates; the second breaks the level from 3 requests/s on."""
    rows = []
    for policy, most in (("paging", 9), ("preallocation", 2)):
        for rate in (1.0, 2.0, 3.0, 4.0):
            met = int(rate <= most)
            rows.append(
                {"trace": "made up", "policy": policy, "gpu": "h100", "request_rate": rate,
                 "max_num_seqs": 64, "seed": 0, "error": None, "slo_met": met,
                 "slo_ttft_ms_p99": 100.0 * rate if met else 9000.0, "goodput": rate * met,
                 "gpus": 1, "cost_per_hour": 2.0}
            )  # fmt: skip
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_where_levels_hold() -> None:
    columns = table()
    found = varied(columns, SETTINGS)
    assert (found.load, found.others) == ("request_rate", ("policy",))
    lines = lines_of(rows_of(columns), found)
    assert [holds(line, found.load) for line in lines] == [
        "paging: the level held at every load tried, up to 4 requests/s.",
        "preallocation: the highest load that held is 2 requests/s; 3 and 4 did not.",
    ]
    lines[0].rows[:] = [{**row, "slo_met": 0} for row in lines[0].rows]
    assert "the level held at no load tried (1, 2, 3 and 4 requests/s)" in holds(
        lines[0], found.load
    )


def test_loads_given_up_when_their_level_was_lost_were_tried() -> None:
    """Their rows are no points of a curve, but no page may call a load below them the highest."""
    columns = table()
    columns["lost_at_s"] = [None, None, 5.0, 3.0, *[None] * 4]
    columns["slo_met"][2:4] = [0, 0]
    page = render(columns, SETTINGS, {"slo_ttft_ms_p99": 2000.0})
    assert "paging: the highest load that held is 2 requests/s; 3 and 4 did not." in page
    assert "slo_ttft" not in page
    assert "TTFT p99" in page


def test_a_load_holds_where_every_draw_does() -> None:
    columns = table()
    columns["draw"] = [0] * 8
    for name, cells in columns.items():
        cells.append({"draw": 1, "slo_met": 0}.get(name, cells[3]))
    lines = lines_of(tried_rows(columns), varied(columns, SETTINGS))
    assert "the highest load that held is 3 requests/s; 4 did not" in holds(
        lines[0], "request_rate"
    )


def test_the_page_speaks_chinese() -> None:
    with speaking("zh"):
        page = render({**table(), "trace": ["azure"] * 8}, SETTINGS, {"slo_ttft_ms_p99": 2000.0})
    assert '<html lang="zh-CN">' in page
    assert "preallocation：达标的最高负载为 2 请求/s；3和4 未达标。" in page
    assert english(page) == []


def test_stopped_and_impossible_runs_are_no_points() -> None:
    columns = table()
    columns["error"][0] = "does not fit"
    columns["lost_at_s"] = [None, 3.0, *[None] * 6]
    assert len(rows_of(columns)) == 6


def test_a_page_is_whole_and_repeats_itself(tmp_path: Path) -> None:
    columns = table()
    columns["gpu"] = ["h100", "l4"] * 4
    columns["cost_per_hour"] = [2.0, 0.7] * 4
    limits = {"slo_ttft_ms_p99": 2000.0}
    out = write_frontier(columns, SETTINGS, limits, tmp_path / "page.html", ["Take this."])
    page = out.read_text()
    assert page == render(columns, SETTINGS, limits, ["Take this."])
    for part in ('id="load"', 'id="heat"', 'id="pareto"', "Take this.", "made up"):
        assert part in page
    assert "https://" not in page.replace("https://plot", "").split("<script>")[0]


def test_hostile_names_are_shown_and_not_obeyed() -> None:
    columns = table()
    columns["policy"] = ["<script>alert(1)</script>"] * 8
    columns["trace"] = ["<img src=x>"] * 8
    page = render(columns, SETTINGS, {"slo_ttft_ms_p99": 2000.0})
    assert "<script>alert(1)" not in page
    assert "<img src=x>" not in page


def test_the_knee_is_where_a_curve_bends() -> None:
    """Flat up to 6, then steep: farthest below the chord at 6. A straight line has none."""
    x = np.arange(1.0, 10.0)
    flat_then_steep = np.where(x <= 6, 1.0, 1.0 + 10 * (x - 6))
    assert knee(x, flat_then_steep) == 5
    assert knee(x, x) is None
    assert knee(x[:3], flat_then_steep[:3]) is None


def test_cells_hold_the_best_over_what_else_varies() -> None:
    rows = [{"a": a, "b": b, "goodput": float(10 * a + b + c)} for a in (1, 2) for b in (1, 2)
            for c in (0, 5)]  # fmt: skip
    _, numbers = heat_map(rows, "a", "b", "goodput")
    assert numbers.head == ("b \\ a", "1", "2")
    assert numbers.rows == (("1", "16", "26"), ("2", "17", "27"))


def test_the_frontier_is_what_nothing_cheaper_beats() -> None:
    points = [(1.0, 2.0), (1.0, 3.0), (2.0, 3.0), (3.0, 5.0), (4.0, 4.0)]
    rows = [{"gpus": cost, "goodput": good, "policy": "p"} for cost, good in points]
    _, numbers = pareto(rows, ["policy"], "gpus", "goodput")
    assert [row[1:] for row in numbers.rows] == [("1", "3.00"), ("3", "5.00")]


@pytest.mark.parametrize("limits", [{}, {"slo_ttft_ms_p99": 2000.0}])
def test_a_table_of_one_row(limits: dict[str, float]) -> None:
    columns = {name: cells[:1] for name, cells in table().items()}
    assert "1 runs drawn" in render(columns, SETTINGS, limits)
