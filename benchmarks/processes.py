"""How much quicker two processes are than one: `python -m benchmarks.processes [CASE ...]`.

Wall time of one and of two by turns, beside the machine's own ceiling: the same Python loop in two
processes that know nothing of each other. On a shared machine the ceiling is what two processes can
reach at that hour, so what is ours is the ratio of the two. `others_cpu_s` says how quiet it was.
Prints a line of JSON a measurement and one a case; figures are in docs/performance.md.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.commands import WIDE_OPTIONS, seven_policies
from benchmarks.process import ROOT, kvtwin
from benchmarks.workload import AZURE, POLICIES, WIDE_RATE

ROUNDS = 2
LOOP = [sys.executable, "-c", "n = 0\nfor i in range(60_000_000): n += i"]


def cpu_s() -> float:
    """Of everybody on this machine, since it started."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft, *_ = ticks
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def run(commands: Sequence[Sequence[str]], compiled: bool = True) -> dict[str, float]:
    """All of them at once: seconds until the last has ended."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KVTWIN_COMPILE": str(int(compiled))}
    began, everybody, before = time.perf_counter(), cpu_s(), os.times()
    started = [
        subprocess.Popen(one, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        for one in commands
    ]
    for process in started:
        if process.wait():
            raise SystemExit(f"{process.args} failed")
    wall_s, after = time.perf_counter() - began, os.times()
    ours = (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
    return {"wall_s": wall_s, "cpu_s": ours, "others_cpu_s": cpu_s() - everybody - ours}


def sweep_200(folder: Path, jobs: int) -> list[str]:
    """200 configurations of the Azure hour, machine code."""
    return [sys.executable, "-m", "benchmarks.sweep", str(jobs)]


def sweep_28(folder: Path, jobs: int) -> list[str]:
    """Seven policies by four batch limits."""
    options = [part for policy in POLICIES for part in ("--policy", policy)]
    system = [*WIDE_OPTIONS[: WIDE_OPTIONS.index("--max-num-seqs")], "--max-num-seqs"]
    rates = ["64,128,256,512", "--request-rate", str(WIDE_RATE)]
    where = ["--jobs", str(jobs), "-o", str(Path(tempfile.mkdtemp(dir=folder)) / "out"), "--json"]
    return kvtwin("sweep", AZURE, *system, *rates, *options, *where)


CASES = {
    "200": (sweep_200, True),
    "200-interpreted": (sweep_200, False),
    "7": (seven_policies, True),
    "7-interpreted": (seven_policies, False),
    "28": (sweep_28, True),
    "28-interpreted": (sweep_28, False),
}


def main(names: Sequence[str]) -> None:
    """Measure these cases, all of them without names."""
    for name in names or CASES:
        command, compiled = CASES[name]
        walls: dict[str, list[float]] = {}
        for number in range(ROUNDS):
            for key, jobs in (("loop", 1), ("loop", 2), ("case", 1), ("case", 2)):
                with tempfile.TemporaryDirectory() as folder:
                    commands = [LOOP] * jobs if key == "loop" else [command(Path(folder), jobs)]
                    found = run(commands, compiled)
                walls.setdefault(f"{key} {jobs}", []).append(found["wall_s"])
                rounded = {one: round(value, 2) for one, value in found.items()}
                print(json.dumps({"case": name, "round": number, key: jobs, **rounded}), flush=True)
        took = {key: statistics.median(values) for key, values in walls.items()}
        ceiling, ours = 2 * took["loop 1"] / took["loop 2"], took["case 1"] / took["case 2"]
        print(json.dumps({"case": name, "ceiling": round(ceiling, 3), "ratio": round(ours, 3),
                          "of_ceiling": round(ours / ceiling, 3)}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
