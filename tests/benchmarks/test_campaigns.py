"""Validation on a CPU as one command: it runs, and its page says what was measured."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.campaigns import __main__ as campaigns
from benchmarks.campaigns.page import page
from benchmarks.campaigns.plan import CAMPAIGNS
from tests.command import kvtwin
from tests.executor.brief import brief_measuring


def in_this_process(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    assert command[:3] == [sys.executable, "-m", "sim.cli"]
    return kvtwin(*command[3:], cwd=options["cwd"])


def test_a_tiny_campaign_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command in this process, measuring as briefly as can be; the next test starts others."""
    monkeypatch.setattr(campaigns, "subprocess", SimpleNamespace(run=in_this_process))
    doc, kept = tmp_path / "page.md", tmp_path / "results.json"
    options = ["--tiny", "--only", "swap", "--page", str(doc), "--results", str(kept)]
    with brief_measuring():
        code = campaigns.main([*options, "-o", str(tmp_path / "out")])
    assert code == 0, capsys.readouterr().out
    results = json.loads(kept.read_text())
    ((run,),) = [one["runs"] for one in results["campaigns"]]
    assert run["policy"] == "paging:block_size=16,layers=capped"
    exact = [row for row in run["rows"] if row["tolerance_percent"] == 0]
    assert len(exact) == 3
    assert all(row["passed"] for row in exact)
    assert doc.read_text() == page(results)
    assert f"{exact[0]['measured']:,.0f}, equal" in doc.read_text()


def test_a_run_that_breaks_is_kept_and_the_next_one_begins(tmp_path: Path) -> None:
    """A model that nothing can be run with: the reason is shown, and the exit code is 1."""
    broken = replace(CAMPAIGNS[0], config={"model_type": "opt"}, repeats=1)
    results: dict[str, Any] = {"campaigns": []}
    doc, kept = tmp_path / "page.md", tmp_path / "results.json"
    campaigns._run(broken, tmp_path / "out", results, doc, kept)
    ((*runs,),) = [one["runs"] for one in json.loads(kept.read_text())["campaigns"]]
    assert [one["policy"] for one in runs] == list(broken.policies)
    assert all(one["why"].startswith("kvtwin: error: ") for one in runs)
    assert doc.read_text().count("| not run: kvtwin: error: ") == 3


def row(name: str, error: float, tolerance: float | None) -> dict[str, Any]:
    passed = None if tolerance is None else abs(error) <= tolerance
    return {
        "name": name,
        "label": f"free: {name}",
        "predicted": 100.0 + error,
        "measured": 100.0,
        "error_percent": error,
        "spread_percent": 3.0,
        "tolerance_percent": tolerance,
        "passed": passed,
    }


def run(policy: str, *errors: float) -> dict[str, Any]:
    names = ("lockstep_all_s", "output_throughput", "ttft_ms_mean", "tpot_ms_mean")
    rows = [row("kv_allocated_bytes", 0.0, 0.0)] if errors else []
    pairs = zip(names, (5.0, 10.0, 10.0, 10.0), errors, strict=False)
    rows += [row(name, error, tolerance) for name, tolerance, error in pairs]
    counts = {"num_preemptions": 7, "swapped_bytes": 4096} if errors else {}
    cost = {"wall_s": 60.0, "cpu_s": 30.0, "load": [1.0, 2.0]}
    return {"policy": policy, "rows": rows, "why": "" if errors else "killed", **cost} | {
        "counts": counts
    }


def test_failures_are_shown_like_successes() -> None:
    runs = [run("good", 1.0, -2.0, 3.0, 4.0), run("late", 1.0, 2.0, -11.4, 4.0), run("dead")]
    one = {"name": "moderate", "about": "All.", "command": "kvtwin", "repeats": 5, "runs": runs}
    machine = {"name": "a CPU", "cores": 2}
    text = page({"campaigns": [one], "machine": machine, "date": "2026-01-01"})
    assert "1 of 3 runs pass whole; 9 of 10 judged rows do." in text
    assert "Missed: late (moderate): ttft_ms_mean." in text
    assert "| `late` | 100, equal | +1.0 (3.0) | +2.0 (3.0) | **-11.4** (3.0) |" in text
    assert "| `dead` | not run: killed |" in text
    assert "3.0 minutes, 1.5 of CPU" in text


def test_the_page_is_what_the_command_made() -> None:
    """Of the numbers that are kept beside it, if any campaign has been run since there is one."""
    assert len(CAMPAIGNS) == 3
    if campaigns.RESULTS.exists():
        results = json.loads(campaigns.RESULTS.read_text(encoding="utf-8"))
        assert campaigns.PAGE.read_text(encoding="utf-8") == page(results)
