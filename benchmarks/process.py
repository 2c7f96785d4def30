"""A whole process: how long it takes and how much memory, measured from outside."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Usage(NamedTuple):
    """On a machine that others share, `cpu_s` repeats better than `wall_s`."""

    wall_s: float
    cpu_s: float
    peak_mb: float  # of the largest process


def kvtwin(*arguments: str) -> list[str]:
    """The command line of `kvtwin` under this Python."""
    return [sys.executable, "-m", "sim.cli", *arguments]


def measure(command: Sequence[str], said: Path | None = None) -> Usage:
    """Run it in the repository's root, its output into a file; raises where it fails."""
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Path(said or os.devnull).open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Usage(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)


def median(runs: Sequence[Usage]) -> Usage:
    """Each figure's own median."""
    return Usage(*(sorted(values)[len(values) // 2] for values in zip(*runs, strict=True)))
