"""2,000 configurations on a Ray cluster of two nodes: `python -m benchmarks.ray_sweep`.

Prints one line of JSON: wall and CPU time, what a task costs beside its runs, and whether the table
has the bytes of two local processes'. Figures and what follows from them are in docs/sweeps.md.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.ray_cluster import two_nodes
from sim.run.options import RunOptions
from sim.sweep.grid import make_grid
from sim.sweep.journal import journal_in
from sim.sweep.on_ray import run_on_ray
from sim.sweep.runners import runner
from sim.sweep.shared import shared_bytes
from sim.sweep.sweep import Runner, plan_of, run_sweep
from sim.sweep.table import CSV, PARQUET, write_table
from workloads import read_trace
from workloads.transform import first

BASE = RunOptions(model="llama-3-8b", gpu="h200", slo="ttft_p99=2s")
AXES = {
    "request_rate": [1.0 + 0.5 * step for step in range(50)],
    "max_num_seqs": [16, 32, 64, 128, 256],
    "block_size": ["8", "16", "32", "64"],
    "gpu": ["h100", "h200"],
}
REQUESTS = 100


def swept(where: Runner, folder: Path, sample: int | None) -> tuple[bytes, int, float]:
    """The table's bytes, its rows, and wall seconds of the runs alone."""
    trace = first(read_trace("azure-2023-conv"), REQUESTS)
    work, plan = plan_of(make_grid(BASE, AXES), trace, sample)
    began = time.perf_counter()
    with journal_in(folder) as journal:
        table = run_sweep(plan, work, trace, journal, where)
        took_s = time.perf_counter() - began
        write_table(table, folder)
    content = (folder / PARQUET).read_bytes() + (folder / CSV).read_bytes()
    return content, len(plan), took_s


def main(sample: int | None = None) -> None:
    """Start the cluster, run, compare, print."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        with two_nodes():
            started_s = time.perf_counter() - began
            on_ray, runs, ray_s = swept(run_on_ray, Path(place) / "ray", sample)
        here, _, local_s = swept(runner("here", 2), Path(place) / "here", sample)
    trace = first(read_trace("azure-2023-conv"), REQUESTS)
    print(
        json.dumps(
            {
                "configurations": runs,
                "requests_each": REQUESTS,
                "nodes": 2,
                "cluster_start_s": round(started_s, 1),
                "ray_wall_s": round(ray_s, 1),
                "two_processes_wall_s": round(local_s, 1),
                "same_bytes": on_ray == here,
                "table_bytes": len(on_ray),
                "trace_bytes": shared_bytes(trace).size,
            }
        )
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
