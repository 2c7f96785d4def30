"""Sweeps: one table whatever the processes, and whatever kills them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from sim.run.options import RunOptions
from sim.run.simulation import simulate
from sim.sweep.grid import make_grid
from sim.sweep.journal import NAME, Journal, journal_in
from sim.sweep.local import run_here
from sim.sweep.runners import runner
from sim.sweep.sweep import plan_of, run_sweep
from sim.sweep.table import CSV, PARQUET, write_table
from workloads import read_trace
from workloads.errors import InputError

AXES = {
    "policy": ["paging", "preallocation"],
    "request_rate": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}
BASE = RunOptions(model="llama-2-7b", gpu="a100-40gb", first=40, slo="ttft_p99=1s")
RUNS = 12


def sweep(folder: Path, jobs: int = 1) -> bytes:
    trace = read_trace("azure-2023-conv")
    work, plan = plan_of(make_grid(BASE, AXES), trace)
    with journal_in(folder) as journal:
        write_table(run_sweep(plan, work, trace, journal, runner("here", jobs)), folder)
    return (folder / CSV).read_bytes() + (folder / PARQUET).read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    folder = tmp_path_factory.mktemp("sweep") / "out"
    return folder, sweep(folder)


def test_a_row_a_run(whole: tuple[Path, bytes]) -> None:
    """Settings and metrics are those of the run alone."""
    table = pd.read_parquet(whole[0] / PARQUET)
    assert len(table) == RUNS
    assert table["policy"].tolist() == ["paging"] * 6 + ["preallocation"] * 6
    run = simulate(
        "azure-2023-conv", model="llama-2-7b", gpu="a100-40gb", first=40, request_rate=3.0,
        policy="preallocation", slo="ttft_p99=1s",
    )  # fmt: skip
    row = table[(table["request_rate"] == 3) & (table["policy"] == "preallocation")].iloc[0]
    for metric in run.metrics_list:
        assert metric.value is None or row[metric.name] == metric.value, metric.name
    csv = pd.read_csv(whole[0] / CSV, float_precision="round_trip")
    assert csv["goodput"].tolist() == table["goodput"].tolist()


def test_two_processes_give_the_same_bytes(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    assert sweep(tmp_path / "two", jobs=2) == whole[1]


def test_workers_that_cannot_be_forked_map_the_same_trace(
    whole: tuple[Path, bytes], tmp_path: Path
) -> None:
    """Beside another thread workers are started anew."""
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert sweep(tmp_path / "started", jobs=2) == whole[1]
    finally:
        stop.set()
        other.join()


def test_killed_at_ten_moments(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    """SIGKILL after each further run, once in the middle of writing a row; what was done is not
    done again, and the table is the same."""
    folder = tmp_path / "killed"
    journal = folder / NAME
    for kill in range(10):
        process = multiprocessing.get_context("fork").Process(target=sweep, args=(folder,))
        process.start()
        until = time.monotonic() + 60
        while (not journal.exists() or journal.read_bytes().count(b"\n") < kill + 1) and (
            time.monotonic() < until and process.is_alive()
        ):
            time.sleep(0.001)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        kept = journal.read_bytes()
        if kill == 5:
            with journal.open("ab") as file:
                file.write(kept[: kept.index(b"\n") // 2])
    before = journal.read_bytes()
    assert 10 <= before.count(b"\n") < RUNS
    assert sweep(folder) == whole[1]
    after = journal.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == RUNS


def test_workers_end_with_a_killed_sweep(tmp_path: Path) -> None:
    """SIGKILL with two workers: within seconds no process of the sweep's is left, and no file but
    its own: the trace that they share has no name."""
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "sim.cli", "sweep", "azure-2023-conv", "--model", "llama-2-7b",
         "--gpu", "a100-40gb", "--first", "40", "--set", "seed=0:300:1", "--jobs", "2",
         "-o", str(tmp_path / "out")],
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    journal = tmp_path / "out" / NAME
    until = time.monotonic() + 60
    while (not journal.exists() or not journal.stat().st_size) and time.monotonic() < until:
        time.sleep(0.02)
    assert len(_session(process.pid)) >= 3
    process.kill()
    process.wait()
    assert _ended(process.pid)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_interrupted_sweep_keeps_its_runs(tmp_path: Path) -> None:
    """Ctrl-C with two workers: one line, no process left, the rows stay."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sim.cli", "sweep", "azure-2023-conv", "--model", "llama-2-7b",
         "--gpu", "a100-40gb", "--first", "40", "--set", "seed=0:300:1", "--jobs", "2",
         "-o", str(tmp_path / "out")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    journal = tmp_path / "out" / NAME
    until = time.monotonic() + 60
    while (not journal.exists() or not journal.stat().st_size) and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert [line for line in said.splitlines() if "simulated" not in line] == [
        f"kvtwin: interrupted; finished runs are kept in {tmp_path / 'out'}, and the same command "
        "goes on"
    ]
    assert journal.read_text().count("\n") >= 1
    assert _ended(process.pid)


def _ended(leader: int) -> bool:
    """Whether every process of the session ends within seconds."""
    until = time.monotonic() + 30
    while _session(leader) and time.monotonic() < until:
        time.sleep(0.1)
    return not _session(leader)


def _session(leader: int) -> list[int]:
    """Live processes of the session, by /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def test_what_cannot_run_says_so_and_stops_nobody(tmp_path: Path) -> None:
    trace = read_trace("azure-2023-conv")
    base = RunOptions(model="llama-2-7b", gpu="a100-40gb", first=5)
    grid = make_grid(base, {"max_num_seqs": [8, 4000]})  # above the tokens of a step
    work, plan = plan_of(grid, trace)
    with journal_in(tmp_path / "out") as journal:
        table = run_sweep(plan, work, trace, journal)
        assert table["error"][0] is None
        assert "could not decode" in table["error"][1]
        write_table(table, tmp_path / "out")
    one = make_grid(base, {"max_num_seqs": [4000]})
    work, plan = plan_of(one, trace)
    with journal_in(tmp_path / "none") as journal, pytest.raises(InputError, match="not decode"):
        run_sweep(plan, work, trace, journal)


def test_folders_that_are_no_sweeps(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="holds no sweep"), journal_in(tmp_path):
        pass
    folder = tmp_path / "out"
    with (
        journal_in(folder),
        pytest.raises(InputError, match="another run is writing it"),
        journal_in(folder),
    ):
        pass


def _journal(folder: Path) -> Path:
    with journal_in(folder) as journal:
        journal.add("a", {"error": None, "goodput": 1.5, "steps": 3, "lost_at_s": None})
        journal.add("b", {"error": "caf\udce9 doesn't\nfit \u2028"})
    return folder / NAME


def test_a_journal_keeps_what_it_is_given(tmp_path: Path) -> None:
    rows = Journal(_journal(tmp_path / "out")).rows
    assert rows["a"] == {"error": None, "goodput": 1.5, "steps": 3, "lost_at_s": None}
    assert rows["b"] == {"error": "caf\\xe9 doesn't\nfit \u2028"}


@pytest.mark.parametrize(
    "line",
    [
        b'{"key": 1}', b"[1]", b"", b"[" * 100_000, b'{"key": "\xff"}', b'{"key": "a", "row": []}',
        b'{"key": "a", "row": {"error": NaN}}', b'{"key": "a", "row": {"error": null}}',
        b'{"key": "a", "row": {"error": null}, "crc32": 1}',
    ],
)  # fmt: skip
def test_lines_that_are_no_finished_runs(tmp_path: Path, line: bytes) -> None:
    file = _journal(tmp_path / "out")
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match="line 3 is no finished run"):
        Journal(file)


@pytest.mark.parametrize(("old", "new"), [(b"1.5", b"1.6"), (b'"goodput": 1.5, ', b"")])
def test_a_changed_run_is_none(tmp_path: Path, old: bytes, new: bytes) -> None:
    file = _journal(tmp_path / "out")
    file.write_bytes(file.read_bytes().replace(old, new))
    with pytest.raises(InputError, match=r"line 1 is no finished run .*changed since"):
        Journal(file)


def test_whole_numbers_beyond_64_bits_are_texts(tmp_path: Path) -> None:
    write_table({"n": [1, 2**70], "m": [1, None]}, tmp_path)
    table = pd.read_parquet(tmp_path / PARQUET)
    assert table["n"].tolist() == ["1", str(2**70)]


def test_a_worker_that_dies_is_told(tmp_path: Path) -> None:
    """One of two workers is killed by the system: one line, and finished runs stay."""
    trace = read_trace("azure-2023-conv")
    base = RunOptions(model="llama-2-7b", gpu="a100-40gb", first=5)
    work, plan = plan_of(make_grid(base, {"seed": list(range(200))}), trace)
    tasks = [(number, run.point) for number, run in enumerate(plan)]
    rows = run_here(work, trace, tasks, 2)
    next(rows)
    multiprocessing.active_children()[-1].kill()
    with pytest.raises(InputError, match="a worker process ended before its time"):
        list(rows)
