"""A sweep of 200 configurations of the Azure hour: `python -m benchmarks.sweep JOBS`, for 1 and 2.

Wall time of a shared machine says what the neighbours do, so CPU time is measured too: with N
workers a sweep takes as long as the parent and its busiest worker together, had they cores of their
own. Prints one line of JSON; figures are in docs/sweeps.md.
"""

import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sim.run.options import RunOptions
from sim.sweep.evaluate import Row, Work
from sim.sweep.grid import Value, make_grid
from sim.sweep.journal import journal_in
from sim.sweep.local import run_here
from sim.sweep.sweep import plan_of, run_sweep
from sim.sweep.table import PARQUET, write_table
from workloads import read_trace
from workloads.schema import Trace

BASE = RunOptions(
    model="llama-3-8b", gpu="h200", max_num_batched_tokens=8192, slo="ttft_p99=2s,tpot_p50=50ms"
)
AXES = {
    "request_rate": [5.0 + 2.5 * step for step in range(10)],
    "max_num_seqs": [64, 128, 256, 512],
    "block_size": ["8", "16", "32", "64", "128"],
}


@dataclass(frozen=True)
class Measured(Work):
    """Rows that say what their process had used when they were done."""

    def run(self, trace: Trace, point: dict[str, Value]) -> Row:
        row = super().run(trace, point)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = usage.ru_utime + usage.ru_stime
        return row | {"_pid": os.getpid(), "_cpu_s": cpu_s, "_peak_kib": usage.ru_maxrss}


def main(jobs: int, runs: int | None = None) -> None:
    """Run it and print the figures."""
    began = time.perf_counter()
    trace = read_trace("azure-2023-conv")
    work, plan = plan_of(make_grid(BASE, AXES), trace, sample=runs)
    with tempfile.TemporaryDirectory() as place, journal_in(Path(place) / "out") as journal:
        table = run_sweep(
            plan, Measured(work.base), trace, journal,
            lambda work, trace, tasks: run_here(work, trace, tasks, jobs),
        )  # fmt: skip
        used = {name: table.pop(name) for name in ("_pid", "_cpu_s", "_peak_kib")}
        write_table(table, Path(place) / "out")
        size = (Path(place) / "out" / PARQUET).stat().st_size
    own = resource.getrusage(resource.RUSAGE_SELF)
    by_process: dict[int, float] = {}
    for pid, cpu_s in zip(used["_pid"], used["_cpu_s"], strict=True):
        by_process[pid] = max(cpu_s, by_process.get(pid, 0.0))
    by_process.pop(os.getpid(), None)
    parent_s = own.ru_utime + own.ru_stime
    print(
        json.dumps(
            {
                "jobs": jobs,
                "runs": len(plan),
                "requests_each": len(trace),
                "wall_s": round(time.perf_counter() - began, 2),
                "parent_cpu_s": round(parent_s, 2),
                "worker_cpu_s": [round(cpu_s, 2) for cpu_s in by_process.values()],
                "critical_path_cpu_s": round(parent_s + max(by_process.values(), default=0.0), 2),
                "worker_peak_mib": round(max(used["_peak_kib"]) / 1024, 1),
                "parquet_bytes": size,
            }
        )
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
