"""What leaves the page: CSV, vectors, traces and the terminal hold run.json's numbers."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from reports.bands import spans
from reports.build import render
from reports.cli import report
from reports.export import comparison_csv
from reports.formats import durations
from reports.load import Run, load_runs
from reports.perfetto import perfetto
from reports.show import print_run, sparkline
from reports.terminal import print_outcome
from tests.reports.browsing import needs_chromium
from tests.reports.cases import TOO_LONG, Case, write_case
from tests.reports.synthetic import CAPACITY, PAGING, PREALLOCATION, Write


@pytest.fixture
def runs(write_run: Write) -> list[Run]:
    return load_runs([write_run(PREALLOCATION), write_run(PAGING)])


def numbers(run: Run) -> dict[str, float | None]:
    info = json.loads((run.folder / "run.json").read_text())
    return {metric["name"]: metric["value"] for metric in info["metrics"]}


def test_csv_reads_back_as_run_json(runs: list[Run]) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison_csv(runs))))
    for run in runs:
        read = {row["metric"]: row[run.label] for row in rows[2:]}
        assert {n: float(text) if text else None for n, text in read.items()} == numbers(run)
    assert rows[1]["metric"] == "keeps_up"
    assert [rows[1][run.label] for run in runs] == ["false", "true"]


def test_no_cell_is_a_formula(write_run: Write) -> None:
    (run,) = load_runs([write_run(PAGING, name="=1+1")])
    assert comparison_csv([run]).splitlines()[0] == "metric,label,unit,'=1+1"


def test_the_page_holds_run_jsons_numbers_and_repeats_itself(runs: list[Run]) -> None:
    page = render(runs)
    assert render(runs) == page
    for run in runs:
        for name, value in numbers(run).items():
            row = re.search(rf'data-metric="{name}".*?</tr>', page, re.S)
            assert row
            assert value is None or f'data-value="{json.dumps(float(value))}"' in row[0]


def test_the_trace_holds_every_step_and_request(runs: list[Run]) -> None:
    events = json.loads(perfetto(runs))["traceEvents"]
    for i, run in enumerate(runs, 1):
        own = [event for event in events if event["pid"] == i]
        steps = [event for event in own if event["ph"] == "X"]
        assert len(steps) == len(run.steps["start_s"])
        seconds = sum(event["dur"] for event in steps) / 1e6
        assert seconds == pytest.approx((run.steps["end_s"] - run.steps["start_s"]).sum())
        begins = {(e["id"], e["name"]): e["ts"] for e in own if e["ph"] == "b"}
        ends = {(e["id"], e["name"]): e["ts"] for e in own if e["ph"] == "e"}
        assert begins.keys() == ends.keys()
        assert len(begins) == 3 * 300
        table = run.requests
        assert begins[7, "queued"] == pytest.approx(table["arrival_s"][7] * 1e6)
        assert ends[7, "decode"] == pytest.approx(table["finish_s"][7] * 1e6)


def test_the_command_writes_what_is_asked(
    write_run: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(PAGING).parent
    table, trace = tmp_path / "t.csv", tmp_path / "t.json"
    report([folder], csv=table, perfetto=trace)
    assert capsys.readouterr().out.splitlines() == [
        str(folder / "report.html"), str(table), str(trace)]  # fmt: skip
    assert table.read_text().startswith("metric,label,unit,paging")


@needs_chromium
def test_figures_are_vectors_the_same_each_time(write_run: Write, tmp_path: Path) -> None:
    folder = write_run(PAGING).parent
    for name in ("one", "two"):
        report([folder], figures=tmp_path / name)
    one = {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()}
    assert one == {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()}
    shares = one["memory-shares.svg"].decode()
    live = load_runs([folder])[0].value("kv_live_share_mean")
    assert live is not None
    assert f">{live:.1f}</text>" in shares
    assert one["memory-shares.pdf"].startswith(b"%PDF")
    assert len(one) == 2 * len(re.findall(r"data-chart=", (folder / "report.html").read_text()))


def test_the_terminal_fits_80_columns_and_says_the_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.console.WIDTH", 80)
    warned = {"name": "table", "warnings": ["decodes beside a chunk were not measured"]}
    folder = write_case(tmp_path / "x", Case(), cost=warned)
    print_outcome(load_runs([folder]))
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    said = " ".join(out.split())
    assert "falls behind from 10 s: 1.01 requests/s offered, 0.5 served." in said
    assert "49 requests wait before it and the queue still grows" in said
    for heading in ("Served", "ttft", "tpot", "Waiting", "Pre-", "empted"):
        assert heading in out
    assert "Offered: 1.01 requests/s. Times: measured kernel times: table." in out
    assert "warning: decodes beside a chunk were not measured" in out


def test_the_terminal_judges_the_service_level_and_says_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(met: int, used: float | None) -> str:
        values = {"slo_met": (met, ""), "slo_used_share": (used, "%"), "cost_per_hour": (2.0, "$")}
        metrics = [
            {"name": name, "label": name, "unit": unit, "formula": "", "value": value}
            for name, (value, unit) in values.items()
        ]
        level = {"text": "ttft_p99=2s", "bounds": []}
        folder = tmp_path / f"{met} {used}"
        write_case(folder, Case("paging"), metrics=metrics, service_level=level)
        print_outcome(load_runs([folder]))
        return " ".join(capsys.readouterr().out.split())

    assert "paging: service level ttft_p99=2s holds, 57.3 % of it used." in said(1, 57.3)
    broken = "paging: service level ttft_p99=2s doesn't hold, "
    assert broken + "5,973.0 % of it used. paging: cost_per_hour 2 $" in said(0, 5973.0)
    assert broken + "too many requests have no answer." in said(0, None)


def test_unequal_warm_ups_are_said_of_their_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name, left_out in (("a", 159), ("b", 107)):
        warm_up = {"asked": "auto", "end_s": 8.0, "requests": left_out}
        runs.append(write_case(tmp_path / name, Case(name), warm_up=warm_up))
    print_outcome(load_runs(runs[:1]))
    assert "\nMetrics leave out 159 requests that" in capsys.readouterr().out
    print_outcome(load_runs(runs))
    out = capsys.readouterr().out
    assert "\na: metrics leave out 159 requests that" in out
    assert "\nb: metrics leave out 107 requests that" in out


def test_show_draws_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = load_runs([write_case(tmp_path / "x", Case())])
    print_run(run)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 160
    peak = int(run.timeline["waiting"].max())
    found = spans(run.timeline["time_s"], 48)
    assert f"{sparkline(found.mean(run.timeline['waiting']), peak)} peak {peak}" in out
    assert "wasted: 10.0 % (1.20 GiB) internal" in out
    # the last request arrives at 99 s, starts at 198 s, ends at 200 s
    slowest = out.split("slowest requests")[1].splitlines()[2].split()
    assert slowest[:6] == ["99", "99", "s", "100", "11", "99.1"]


def test_peaks_are_those_of_every_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples pass over steps: what the metrics count is printed, of one engine, not of several."""
    metrics = [
        {"name": name, "label": name, "unit": "", "formula": "", "value": value}
        for name, value in (("waiting_peak", 5_000), ("kv_used_peak_bytes", CAPACITY))
    ]
    for replicas in (1, 2):
        folder = write_case(tmp_path / f"{replicas}", Case(), metrics=metrics, replicas=replicas)
        out = shown_by(capsys, load_runs([folder])[0])
        assert ("peak 5,000" in out, "peak 100 %" in out) == ((True, True), (False, False))[
            replicas - 1
        ]


def test_a_column_of_times_has_one_unit() -> None:
    assert durations([266, 498]) == ["266 s", "498 s"]
    assert durations([301, 4980]) == ["5.02 min", "83 min"]
    assert durations([0.25, 9.5]) == ["250 ms", "9,500 ms"]
    assert durations([0.25, 95, 3600]) == ["0.25 s", "95 s", "3,600 s"]
    assert durations([7200, 7.2e6]) == ["2 h", "2,000 h"]


def test_sparklines_reach_from_nothing_to_the_top() -> None:
    import numpy as np

    assert sparkline(np.array([0.0, 0.5, 1.0]), 1.0) == "▁▅█"
    assert sparkline(np.zeros(3), 0.0) == "▁▁▁"


def shown_by(capsys: pytest.CaptureFixture[str], run: Run) -> str:
    print_run(run)
    return capsys.readouterr().out


def test_what_a_measured_run_did_not_record_is_not_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as pq

    folder = write_case(tmp_path / "x", Case("measured", kind="measured"))
    empty = pq.read_table(folder / "steps.parquet").slice(0, 0)
    pq.write_table(empty, folder / "steps.parquet")
    (run,) = load_runs([folder])
    assert run.value("num_preemptions") is None
    assert run.value("kv_used_peak_bytes") is None
    assert run.value("e2el_ms_mean") is not None
    page = render([run])
    assert shown_by(capsys, run).splitlines()[-1].split()[-1] == "–"  # whom, nobody knows
    row = re.search(r'data-metric="num_preemptions".*?</tr>', page, re.S)
    assert row
    assert "not recorded" in row[0]


def test_a_terminal_says_what_is_cut_and_what_is_lossy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """5 of 100 get half of their output; a window forgets."""
    cut = write_case(tmp_path / "a", Case(servers=10, truncated=5, cut_prompt=TOO_LONG))
    said = " ".join(shown_by(capsys, load_runs([cut])[0]).split())
    assert "5 of 100 requests are cut short by the longest context of 2,048 tokens." in said
    window = Case("sliding_window:window=8", servers=10, limitation="forgets old tokens")
    exact = write_case(tmp_path / "b", Case(servers=10))
    print_outcome(load_runs([exact, write_case(tmp_path / "c", window)]))
    said = " ".join(capsys.readouterr().out.split())
    assert "Apart, because it changes the model's answers: sliding_window:window=8" in said
