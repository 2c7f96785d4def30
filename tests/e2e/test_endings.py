"""However a command ends, it says so in one line, and nothing of it goes on or lies about."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"}
RUN = (
    "simulate", "azure-2023-conv", "--first", "200", "--model", "llama-2-7b", "--gpu", "a100-40gb",
    "--no-report", "-o", "runs",
)  # fmt: skip
ENDLESS = (
    "simulate", "azure-2023-conv", "--no-fast-forward", "--model", "llama-2-7b",
    "--gpu", "a100-40gb", "--no-report", "--jobs", "2", "-o", "runs",
)  # fmt: skip


def kvtwin(
    *arguments: str, cwd: Path, shell: str = "", limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command, with redirections as a shell would write them."""
    command = [sys.executable, "-m", "sim.cli", *arguments]
    if shell:
        command = ["/bin/bash", "-c", f'set -o pipefail; "$@" {shell}', "bash", *command]
    return subprocess.run(
        command,
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=limit,
    )


def test_a_closed_stderr_changes_nothing(tmp_path: Path) -> None:
    done = kvtwin(*RUN, cwd=tmp_path, shell="2>&-")
    assert done.returncode == 0
    assert (tmp_path / "runs" / "paging" / "run.json").exists()


def test_an_error_that_nobody_can_read_keeps_its_code(tmp_path: Path) -> None:
    assert kvtwin("simulate", "none", cwd=tmp_path, shell="2>&-").returncode == 2


@pytest.mark.parametrize("command", ["traces list", "list policies --json", "size --help"])
def test_a_reader_that_leaves_ends_it_as_elsewhere(tmp_path: Path, command: str) -> None:
    done = kvtwin(*command.split(), cwd=tmp_path, shell="| true")
    assert done.returncode == 141
    assert done.stderr == ""


def test_a_full_disk_behind_stdout_is_told(tmp_path: Path) -> None:
    done = kvtwin("traces", "list", cwd=tmp_path, shell=">/dev/full")
    assert (done.returncode, done.stderr) == (
        2,
        "kvtwin: error: output: No space left on device\n",
    )


def test_too_little_memory_is_one_line_and_no_hang(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))

    done = kvtwin(*RUN, "--jobs", "2", cwd=tmp_path, limit=limit)
    if done.returncode == 0:
        pytest.skip("600 MB are enough here")
    assert done.returncode == 2
    *notes, line = done.stderr.splitlines()  # on the trace, where it ran out later
    assert line.startswith("kvtwin: error: ")
    assert "memory" in line or "worker" in line
    assert all("requests" in note or "compiled" in note for note in notes)
    assert list(tmp_path.iterdir()) == []


def test_too_few_file_handles_are_one_line(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (7, 7))

    done = kvtwin(*RUN, "--jobs", "2", cwd=tmp_path, limit=limit)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def workers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"resource_tracker" not in _command(int(child))]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_workers_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sim.cli", *ENDLESS],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(workers := workers_of(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)  # as a terminal does
    _, said = process.communicate(timeout=20)
    until = time.monotonic() + 5
    while any(_command(worker) for worker in workers):
        assert time.monotonic() < until
        time.sleep(0.02)
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert said == "kvtwin: interrupted, nothing was written\n"
        assert list(tmp_path.iterdir()) == []
