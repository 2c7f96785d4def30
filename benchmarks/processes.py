"""How much quicker two processes are than one: `python -m benchmarks.processes [CASE ...]`.

By wall time, and by the CPU time of the path that can't be shared: the command's own and its
busiest worker's, which is what the wall would be had the cores no other work. One and two by turns,
beside the machine's own ceiling: the same Python loop in two processes that know nothing of each
other. Prints a line of JSON a measurement and one a case; figures are in docs/performance.md.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.commands import WIDE_OPTIONS, seven_policies
from benchmarks.process import ROOT, kvtwin
from benchmarks.workload import AZURE, POLICIES, WIDE_RATE

ROUNDS = 2
TIMES = ("wall_s", "path_cpu_s")
LOOP = [sys.executable, "-c", "n = 0\nfor i in range(60_000_000): n += i"]


TICKS = os.sysconf("SC_CLK_TCK")


def everybody_s() -> float:
    """CPU time of everybody on this machine, since it started."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft, *_ = ticks
    return (user + nice + system + interrupts + soft) / TICKS


def descendants(pid: int) -> Iterator[int]:
    """The process and all that it started, by /proc; those that ended meanwhile are left out."""
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        yield pid
        for child in children:
            yield from descendants(int(child))


def used_s(pid: int) -> float:
    """CPU time that a process has used itself."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0


def run(commands: Sequence[Sequence[str]], compiled: bool = True) -> dict[str, Any]:
    """All of them at once: seconds until the last has ended, and CPU time by process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KVTWIN_COMPILE": str(int(compiled))}
    began, everybody = time.perf_counter(), everybody_s()
    started = [
        subprocess.Popen(one, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        for one in commands
    ]
    used: dict[int, float] = {}
    while any(process.poll() is None for process in started):
        for process in started:
            for pid in descendants(process.pid):
                used[pid] = max(used.get(pid, 0.0), used_s(pid))
        time.sleep(0.05)
    for process in started:
        if process.returncode:
            raise SystemExit(f"{process.args} failed")
    own = [used.pop(process.pid) for process in started]
    path_s = max(own) + max(used.values(), default=0.0)
    others_s = everybody_s() - everybody - sum(own) - sum(used.values())
    return {
        "wall_s": round(time.perf_counter() - began, 2),
        "path_cpu_s": round(path_s, 2),
        "cpu_s": [round(value, 2) for value in (*own, *used.values())],
        "others_cpu_s": round(others_s, 1),
    }


def sweep_200(folder: Path, jobs: int) -> list[str]:
    """200 configurations of the Azure hour."""
    return [sys.executable, "-m", "benchmarks.sweep", str(jobs)]


def sweep_50(folder: Path, jobs: int) -> list[str]:
    """A quarter of them, which is long enough where nothing is compiled."""
    return [*sweep_200(folder, jobs), "50"]


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
    "50-interpreted": (sweep_50, False),
    "7": (seven_policies, True),
    "7-interpreted": (seven_policies, False),
    "28": (sweep_28, True),
    "28-interpreted": (sweep_28, False),
}


def main(names: Sequence[str]) -> None:
    """Measure the machine and these cases, all of them without names."""
    loop = [run([LOOP] * jobs) for jobs in (1, 2)]
    print(json.dumps({"loops": loop, "ceiling": {
        time_of: round(2 * loop[0][time_of] / loop[1][time_of], 3) for time_of in TIMES
    }}), flush=True)  # fmt: skip
    for name in names or CASES:
        command, compiled = CASES[name]
        found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
        for _ in range(ROUNDS):
            for jobs, ones in found.items():
                with tempfile.TemporaryDirectory() as folder:
                    ones.append(run([command(Path(folder), jobs)], compiled))
                print(json.dumps({"case": name, "processes": jobs, **ones[-1]}), flush=True)
        ratios = {}
        for time_of in TIMES:
            one, two = (
                statistics.median(each[time_of] for each in ones) for ones in found.values()
            )
            ratios[time_of] = round(one / two, 3)
        print(json.dumps({"case": name, "ratio": ratios}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
