"""The page as a file: self-contained, strict, small, the same bytes every time."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports.assets import plotly_js
from reports.build import render, write_report
from reports.cli import report
from reports.formats import gib
from reports.load import load_runs
from tests.reports.synthetic import PAGING, PREALLOCATION, Spec, Write, write_folder
from workloads.errors import InputError

MAX_BYTES = 2 * 10**6


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("page")
    specs = {"preallocation": PREALLOCATION, "paging": PAGING}
    return render(load_runs([write_folder(place / name, spec) for name, spec in specs.items()]))


def charts(page: str) -> dict[str, Any]:
    found = re.findall(
        r'<script type="application/json" data-chart="([^"]+)">(.*?)</script>', page, re.S
    )

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is not strict JSON")

    return {name: json.loads(text, parse_constant=refuse) for name, text in found}


def arrays(page: str) -> list[np.ndarray]:
    """The page's arrays, in which a NaN would hide from a JSON parser."""
    (text,) = re.findall(r'<script type="application/json" id="arrays">(.*?)</script>', page, re.S)
    return [np.frombuffer(base64.b64decode(part), "<f4") for part in json.loads(text)]


class Links(HTMLParser):
    """Everything a browser would fetch or follow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]


def test_nothing_comes_from_outside(page: str) -> None:
    assert page.count(plotly_js()) == 1
    own = page.replace(plotly_js(), "")
    links = Links()
    links.feed(own)
    assert all(link.startswith(("#", "data:text/csv;")) for link in links.found)
    assert not re.search(r"https?://|url\(|@import", own)
    assert "default-src 'none'" in own


def test_the_charts_are_strict_json_without_nan(page: str) -> None:
    found = charts(page)
    assert list(found) == [
        "memory-shares",
        "load-over-time",
        "running-over-time",
        "memory-over-time",
        "time-split",
        "time-to-first-token",
        "time-per-output-token",
        "end-to-end-latency",
        "waterfall",
        "gantt",
    ]
    values = arrays(page)
    assert len(values) > 20
    assert all(np.isfinite(array).all() for array in values)
    assert all(f'id="{name}"' in page for name in found)


def test_identical_runs_give_identical_pages(write_run: Write, tmp_path: Path) -> None:
    first = write_run(PAGING, "monday", created_at="2026-01-05T10:00:00Z")
    second = write_run(PAGING, "tuesday", created_at="2026-01-06T11:11:11Z")
    one = write_report([first], tmp_path / "one.html").read_bytes()
    two = write_report([second], tmp_path / "two.html").read_bytes()
    assert one == two


def test_pages_of_long_runs_are_those_of_short_ones(
    write_run: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables are looked at by parts; how long these are leaves no mark."""
    folders = [write_run(PAGING), write_run(PREALLOCATION)]
    whole = render(load_runs(folders))
    monkeypatch.setattr("workloads.spool.ROWS", 7)
    monkeypatch.setattr("reports.service.ROWS", 5)
    assert render(load_runs(folders)) == whole


def test_gib_and_gb_are_not_mixed(page: str) -> None:
    own = page.replace(plotly_js(), "").replace("A100-40GB", "")
    own = re.sub(r'"bdata":"[^"]*"', "", own)
    assert "GiB" in own
    assert not re.search(r"\d\s?(GB|MB|TB)\b(?!/s)", own)  # rates are decimal, as on datasheets


def test_the_device_has_its_datasheets_numbers(page: str) -> None:
    assert "40.00 GiB · 1,555 GB/s · 312 TFLOP/s" in page


def test_limits_are_in_words(write_run: Write) -> None:
    limits = {"max_num_seqs": 1256, "batching": "static", "from_the_future": 7}
    page = render(load_runs([write_run(PAGING, limits=limits)]))
    assert "at most 1,256 requests at once · static batching · from the future 7" in page


def test_several_engines_are_in_the_setup(write_run: Write) -> None:
    fits = [{"label": "paging", "points": [[1024, 3]]}]
    runs = [
        write_run(PAGING, "one"),
        write_run(PAGING, "three", replicas=3, router="least-loaded", capacity=fits),
        write_run(PAGING, "ranks", data_parallel=2, router="round-robin"),
    ]
    alone = render(load_runs(runs[1:2]))
    assert "<dt>Engine</dt><dd>default · 3 replicas · routed least-loaded</dd>" in alone
    each = "Of each of 3 replicas, not of all together."
    for section in ("capacity-curve", "ledger"):
        assert each in alone.split(f'<section id="{section}">')[1].split("</section>")[0]
    (run,) = load_runs(runs[1:2])
    budget = gib(run.info.pool.capacity_bytes)
    assert (
        f"<dt>KV budget</dt><dd>{budget} · {gib(run.info.pool.capacity_bytes // 3)} in each"
        in alone
    )
    page = render(load_runs(runs))
    assert "Of each of 2 data-parallel ranks, not of all together." in page
    assert "2 data-parallel ranks · routed round-robin" in page
    assert "These runs differ in KV budget and engine" in page
    assert "replica" not in render(load_runs(runs[:1]))


def test_every_chart_has_a_sentence_for_browsers_without_javascript(page: str) -> None:
    assert page.count("<noscript>") == len(charts(page))


def test_one_unit_a_family_whatever_the_statistic(write_run: Write) -> None:
    def metrics(mean: float) -> list[dict[str, Any]]:
        given = {"e2el_ms_mean": mean, "e2el_ms_p99": 40_000.0, "ttft_ms_mean": 12.0}
        return [
            {"name": name, "label": name, "unit": "ms", "formula": "", "value": value}
            for name, value in given.items()
        ]

    page = render(load_runs([write_run(PAGING, metrics=metrics(5_458.0))]))
    rows = dict(re.findall(r'data-metric="(\w+)">.*?<td class="unit">(\w*)</td>', page, re.S))
    assert rows == {"e2el_ms_mean": "s", "e2el_ms_p99": "s", "ttft_ms_mean": "ms"}
    assert 'data-value="5458.0">5.46</td>' in page


def test_arrays_are_written_once(page: str) -> None:
    known = arrays(page)
    assert len(known) == len({part.tobytes() for part in known})
    assert '"bdata"' not in page.replace(plotly_js(), "")


def test_seven_policies_of_an_hour_stay_small(write_run: Write, tmp_path: Path) -> None:
    spec = Spec("paging", 24, "block", requests=2000, samples=3600)
    folders = [write_run(Spec(f"paging:block_size={i}", *_rest(spec)), "hour") for i in range(7)]
    assert write_report(folders, tmp_path / "out.html").stat().st_size < MAX_BYTES


def _rest(spec: Spec) -> tuple[Any, ...]:
    return (spec.servers, spec.held, spec.requests, spec.rate, spec.longest, spec.kind, None,
            spec.samples)  # fmt: skip


def test_text_from_a_run_is_escaped(write_run: Write) -> None:
    evil = "</script><script>alert(1)</script>"
    page = render(load_runs([write_run(PAGING, name=evil, command=evil)]))
    assert "<script>alert" not in page
    assert json.dumps(charts(page)["memory-shares"]["data"]).count("alert") > 0


def test_the_ledger_names_bytes_that_are_missing(write_run: Write) -> None:
    page = render(
        load_runs([write_run(PAGING, ledger=[{"name": "KV", "bytes": 2**30, "why": "all"}])])
    )
    assert "unaccounted" in page
    assert f"{39 * 2**30:,}" in page


def test_refused_requests_are_counted_and_the_first_are_named(write_run: Write) -> None:
    (run,) = load_runs([write_run(Spec("paging", 24, "block", longest=300))])
    page = render([run])
    first = int(np.flatnonzero(run.requests["status"] == "refused")[0])
    assert f"{run.count('refused')} of 300 refused" in page
    assert f"<tr><td>{first}</td>" in page


def test_policies_that_refuse_the_same_share_a_table(write_run: Write) -> None:
    specs = [Spec(f"paging:block_size={i}", 24, "block", longest=300) for i in range(3)]
    same = render(load_runs([write_run(spec) for spec in specs]))
    assert same.count("<th>request id</th>") == 1
    assert "refused by every policy, the first of them:" in same
    # The same first ten, but more of them in all: one table, two counts.
    folder = write_run(Spec("more", 24, "block", longest=300))
    table = pq.read_table(folder / "requests.parquet")
    status = table["status"].cast("string").to_pylist()
    status[len(status) - 1 - status[::-1].index("finished")] = "refused"
    at = table.schema.get_field_index("status")
    pq.write_table(table.set_column(at, "status", pa.array(status)), folder / "requests.parquet")
    runs = load_runs([write_run(specs[0], "b"), write_run(Spec("all", 24, "block"), "b"), folder])
    page = render(runs)
    assert page.count("<th>request id</th>") == 1
    assert f"{runs[0].count('refused')} of 300 refused." in page
    assert f"{runs[0].count('refused') + 1} of 300 refused, the first of them:" in page
    assert "by every policy" not in page


def test_runs_of_different_traces_have_no_winner(write_run: Write) -> None:
    trace = {"name": "other", "source": "", "rows": 200, "rows_read": 200}
    other = Spec("preallocation", 7, "max", requests=200)
    page = render(load_runs([write_run(PAGING), write_run(other, trace=trace)]))
    assert "These runs replay different traces, so no winner is named." in page
    assert "<h1>KV-cache policies on sharegpt-like and other</h1>" in page
    assert "These runs differ in trace" in page
    assert ' best"' not in page
    assert ' fits"' not in page


def test_the_same_trace_at_another_rate_is_a_sweep_of_one_policy(write_run: Write) -> None:
    quick = Spec(PAGING.name, 24, "block", rate=2.0)
    page = render(load_runs([write_run(PAGING, "slow"), write_run(quick, "quick")]))
    assert "what varies: request rate" in page
    assert "<h1>KV-cache policies on sharegpt-like</h1>" in page


def test_runs_of_different_models_have_no_winner(write_run: Write) -> None:
    page = render(load_runs([write_run(PAGING), write_run(PREALLOCATION, model={"name": "other"})]))
    assert "These runs serve different models, so no winner is named." in page
    assert ' best"' not in page


def test_runs_of_different_setups_are_called_incomparable(write_run: Write) -> None:
    limits = {"max_num_seqs": 8}
    runs = load_runs([write_run(PAGING), write_run(PREALLOCATION, limits=limits)])
    assert "These runs differ in limits" in render(runs)
    assert "These runs differ" not in render(runs[:1])


@pytest.mark.parametrize(
    "spec", [Spec("empty", 4, "block", requests=0), Spec("no", 4, "block", longest=1)]
)
def test_an_outcome_without_service_still_gives_a_full_report(write_run: Write, spec: Spec) -> None:
    page = render(load_runs([write_run(spec)]))
    assert charts(page) == {}
    assert "there are no latencies and no charts" in page
    assert "Every byte of the device" in page
    assert "Definitions" in page


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("trace.csv", "expected the name of a file that ends in .html"),
        ("folder", "expected the name of a file that ends in .html"),
        (".", "expected the name of a file that ends in .html"),
        ("folder.html", "cannot be written: Is a directory"),
        ("trace.csv/x.html", "cannot be written: Not a directory"),
        (f"{'x' * 300}.html", "cannot be written: File name too long"),
        (f"new/{'x' * 300}.html", "cannot be written: File name too long"),
        (f"new/{'x' * 300}/x.html", "cannot be written: File name too long"),
        ("/proc/x.html", "cannot be written: "),
        ("/proc/new/x.html", "cannot be written: "),
    ],
)
def test_where_no_report_can_be(
    write_run: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.html").mkdir()
    runs = write_run(PAGING).parent
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError) as raised:
        report([runs], output=Path(out))
    assert str(raised.value).startswith(f"{out}: {reason}")
    assert "\n" not in str(raised.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "trace.csv").read_text() == "precious"


def test_folders_above_the_report_are_made(write_run: Write, tmp_path: Path) -> None:
    out = tmp_path / "new" / "er" / "x.html"
    assert write_report([write_run(PAGING)], out) == out
    assert [path.name for path in out.parent.iterdir()] == ["x.html"]


def test_loaded_runs_and_folders_mix_and_stay_told_apart(write_run: Write, tmp_path: Path) -> None:
    one, two = write_run(PAGING, "a"), write_run(PAGING, "b")
    text = write_report([one, *load_runs([two])], tmp_path / "out.html", "Mixed").read_text()
    assert f"{PAGING.name} · a" in text
    assert f"{PAGING.name} · b" in text
    assert "<h1>Mixed</h1>" in text


def test_the_command_prints_where_the_report_is(
    write_run: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(PAGING).parent
    report([folder])
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    report([folder], output=folder / "x.html", json=True)
    assert json.loads(capsys.readouterr().out) == {
        "report": str(folder / "x.html"),
        "runs": [PAGING.name],
    }
    with pytest.raises(InputError, match="no such folder"):
        report([folder / "nowhere"])


def test_warnings_are_in_the_head(write_run: Write) -> None:
    """Each once, before the results, with the runs they hold for."""
    warned = {"name": "table", "warnings": ["all-reduce was not measured"]}
    page = render(load_runs([write_run(PREALLOCATION), write_run(PAGING, "b", cost=warned)]))
    head = page.split('<main id="results">')[0]
    assert head.count("all-reduce was not measured") == 1
    assert re.search(r'class="for">[^<]*block_size=16[^<]*</p>\s*<p>all-reduce', head)
