"""A whole process: how long it takes and how much memory, measured from outside."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Usage(NamedTuple):
    """On a machine that others share, `cpu_s` repeats better than `wall_s`."""

    wall_s: float
    cpu_s: float
    peak_mb: float  # of the largest process


WATCH = """
import json, os, subprocess, sys, time
start = time.perf_counter()
with open(sys.argv[1], "w") as out:
    process = subprocess.Popen(sys.argv[2:], stdout=out)
_, status, used = os.wait4(process.pid, 0)
took = time.perf_counter() - start
print(json.dumps([took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6]))
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""A process's peak includes what its parent held when it forked, so its parent is a small one."""


def kvtwin(*arguments: str) -> list[str]:
    """The command line of `kvtwin` under this Python."""
    return [sys.executable, "-m", "sim.cli", *arguments]


def measure(
    command: Sequence[str], said: Path | None = None, compiled: bool | None = None
) -> Usage:
    """Run it in the repository's root, its output into a file; raises where it fails.

    `compiled`: in that form; None: in the one that kvtwin chooses.
    """
    out = str(said or os.devnull)
    watch = [sys.executable, "-S", "-c", WATCH, out, *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if compiled is not None:
        environment["KVTWIN_COMPILE"] = str(int(compiled))
    told = subprocess.run(watch, cwd=ROOT, env=environment, check=True, capture_output=True)
    return Usage(*json.loads(told.stdout))


def median(runs: Sequence[Usage]) -> Usage:
    """Each figure's own median."""
    return Usage(*(sorted(values)[len(values) // 2] for values in zip(*runs, strict=True)))


def processor() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (names or [platform.machine()])[0]
