"""The main job as a user runs it: folders, determinism, interruption, start-up."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command import kvtwin

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
AZURE = ["simulate", "azure-2023-conv", "--model", "llama-2-13b", "--gpu", "a100-40gb"]
POLICIES = ["preallocation", "sliding_window:window=1024,sinks=4", "paging:block_size=16"]


def asked(*more: str) -> list[str]:
    """The command's words: three policies on the Azure hour."""
    return [*AZURE, *(part for policy in POLICIES for part in ("--policy", policy)), *more]


def azure(cwd: Path, *more: str) -> dict[str, dict[str, float]]:
    """The metrics of each run, by the policy's name."""
    done = kvtwin(*asked(*more), "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    return {run: {m["name"]: m["value"] for m in metrics} for run, metrics in runs.items()}


def test_the_azure_hour_is_accounted_for_under_every_policy(tmp_path: Path) -> None:
    runs = azure(tmp_path, "--request-rate", "1.0", "--no-report", "-o", "azure")
    assert list(runs) == POLICIES
    for m in runs.values():
        left = m["finished"] + m["truncated"] + m["refused"] + m["unfinished"]
        assert left == m["requests"] == 19_366
        shares = ("live", "reserved", "internal", "external", "metadata", "free")
        assert sum(m[f"kv_{use}_share_mean"] for use in shares) == pytest.approx(100)
    preallocation, window, paging = (runs[policy] for policy in POLICIES)
    assert paging["kv_live_of_used_mean"] > 90
    assert preallocation["kv_live_of_used_mean"] < 50
    # 14,062 slots (11,520,084,787 B at 819,200 B a token) hold 3 reservations of 4,096
    # and 13 rings of 1,028.
    assert preallocation["running_peak"] == 11_520_084_787 // 819_200 // 4096 == 3
    assert window["running_peak"] == 11_520_084_787 // 819_200 // 1028 == 13
    assert preallocation["ttft_ms_mean"] > 1000 * paging["ttft_ms_mean"]
    refused = pq.read_table(
        tmp_path / "azure" / "paging-block_size-16" / "requests.parquet",
        filters=[("status", "==", "refused")],
    )
    assert refused.num_rows == paging["refused"]
    assert min(refused["prompt_tokens"].to_pylist()) >= 4096


def test_the_same_command_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    """Here and in a process of its own, whose hashes have another seed."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    words = asked("--first", "500", "-o", "runs", "--json")
    assert kvtwin(*words, cwd=tmp_path / "one").returncode == 0
    subprocess.run(
        [sys.executable, "-m", "sim.cli", *words],
        cwd=tmp_path / "two",
        env={**ENVIRONMENT, "PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
    )
    one, two = (tmp_path / name / "runs" for name in ("one", "two"))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert len(files) == 4 * len(POLICIES) + 2  # the report and the mark
    for file in files:
        a, b = ((folder / file).read_bytes() for folder in (one, two))
        if file.name == "run.json":
            first, second = json.loads(a), json.loads(b)
            del first["created_at"], second["created_at"]
            assert first == second
        else:
            assert a == b, file


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sim.cli", *AZURE, "--no-fast-forward", "--jobs", "1", "-o", "runs"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(tmp_path.glob(".runs.*")):  # staging has begun
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert said == "kvtwin: interrupted, nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_two_jobs_write_what_one_writes(tmp_path: Path) -> None:
    one, two = (
        azure(tmp_path, "--first", "400", "--no-report", "--jobs", jobs, "-o", f"jobs{jobs}")
        for jobs in ("1", "2")
    )
    assert one == two
    for policy in ("preallocation", "paging-block_size-16"):
        for table in ("requests", "steps", "timeline"):
            first, second = (tmp_path / f"jobs{n}" / policy / f"{table}.parquet" for n in (1, 2))
            assert first.read_bytes() == second.read_bytes()


def test_a_second_run_replaces_the_first(tmp_path: Path) -> None:
    azure(tmp_path, "--first", "20", "-o", "runs")
    again = kvtwin(*AZURE, "--first", "20", "--policy", "paging", "-o", "runs", cwd=tmp_path)
    assert again.returncode == 0
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == [".kvtwin.json", "paging", "report.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_run_folder_that_holds_something_else_is_not_replaced(tmp_path: Path) -> None:
    azure(tmp_path, "--first", "20", "-o", "runs")
    (tmp_path / "runs" / "preallocation" / "notes.txt").write_text("mine")
    assert kvtwin(*asked("--first", "20", "-o", "runs"), cwd=tmp_path).returncode == 2
    assert (tmp_path / "runs" / "preallocation" / "notes.txt").exists()


def test_dropped_rows_are_said(tmp_path: Path) -> None:
    (tmp_path / "zero.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,9,0\n1,9,1\n")
    said = kvtwin("simulate", "zero.csv", *AZURE[2:], "--no-report", cwd=tmp_path).stdout
    assert "1 of 2 rows dropped" in said


def test_help_loads_neither_tables_nor_engine() -> None:
    """What makes `kvtwin --help` quick, asked without a clock."""
    heavy = ("pandas", "pyarrow", "simpy", "plotly", "torch", "pydantic", "sim.engine.loop")
    code = (
        "import atexit, sys; from sim.cli import app;"
        f"atexit.register(lambda: print([m for m in {heavy!r} if m in sys.modules]));"
        "app(['--help'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_report_says_what_a_token_takes_in_each_group_of_layers(tmp_path: Path) -> None:
    """Gemma-3-27B: K and V of 16 heads of 128 in 10 full and 52 windowed layers, a scale a head."""
    trace = ["simulate", "azure-2023-code", "--first", "20", "--model", "gemma-3-27b"]
    done = kvtwin(*trace, "--gpu", "h200", "--policy", "paging+int8", "-o", "mixed", cwd=tmp_path)
    assert done.returncode == 0
    (run,) = (tmp_path / "mixed").glob("*/run.json")
    groups = json.loads(run.read_text())["pool"]["groups"]
    heads = 2 * 16
    assert [(g["layers"], g["window"]) for g in groups] == [(10, None), (52, 1024)]
    assert [g["payload_bytes"] for g in groups] == [10 * heads * 128, 52 * heads * 128]
    assert [g["scale_bytes"] for g in groups] == [10 * heads * 4, 52 * heads * 4]
    page = (tmp_path / "mixed" / "report.html").read_text()
    assert f"<td>52 window</td><td>the last 1,024 tokens</td><td>{52 * heads * 128:,}</td>" in page


def test_closed_loops_are_the_same_under_any_jobs_and_hash_seed(tmp_path: Path) -> None:
    """Sessions whose turns wait, and drawn think times: tables of the same bytes."""
    command = ["simulate", "coding-agents", "--first", "120", "--users", "6", "--think-time"]
    command += ["exponential:5s", "--model", "llama-3.1-8b", "--gpu", "h100", "--no-report"]
    command += ["--policy", "paging", "--policy", "paging+prefix"]
    for jobs in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "sim.cli", *command, "--jobs", jobs, "-o", f"jobs{jobs}"],
            cwd=tmp_path,
            env={**ENVIRONMENT, "PYTHONHASHSEED": jobs},
            capture_output=True,
            check=True,
        )
    for policy in ("paging", "paging+prefix"):
        for table in ("requests", "steps", "timeline"):
            one, two = (tmp_path / f"jobs{n}" / policy / f"{table}.parquet" for n in (1, 2))
            assert one.read_bytes() == two.read_bytes()
