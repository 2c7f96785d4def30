"""A real Ray cluster of two nodes on this machine: `make test-ray`, some minutes on a busy one."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

for name in ("worker_register_timeout_seconds", "gcs_server_request_timeout_seconds"):
    os.environ.setdefault(f"RAY_{name}", "300")
os.environ.setdefault("RAY_health_check_timeout_ms", "60000")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
ray: Any = pytest.importorskip("ray")

from benchmarks.ray_cluster import two_nodes  # noqa: E402
from sim.run.options import RunOptions  # noqa: E402
from sim.sweep.grid import make_grid  # noqa: E402
from sim.sweep.journal import journal_in  # noqa: E402
from sim.sweep.on_ray import run_on_ray  # noqa: E402
from sim.sweep.runners import runner  # noqa: E402
from sim.sweep.sweep import Runner, plan_of, run_sweep  # noqa: E402
from sim.sweep.table import CSV, PARQUET, write_table  # noqa: E402
from workloads import read_trace  # noqa: E402

pytestmark = pytest.mark.skipif("KVTWIN_RAY" not in os.environ, reason="make test-ray")

BASE = RunOptions(model="llama-2-7b", gpu="a100-40gb", first=150, slo="ttft_p99=1s")
AXES = {
    "policy": ["paging", "preallocation"],
    "request_rate": [0.5 + 0.5 * step for step in range(10)],
    "max_num_seqs": [16, 64],
}
RUNS = 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with two_nodes() as made:
        yield made


def swept(folder: Path, where: Runner) -> bytes:
    trace = read_trace("azure-2023-conv")
    work, plan = plan_of(make_grid(BASE, AXES), trace)
    with journal_in(folder) as journal:
        write_table(run_sweep(plan, work, trace, journal, where), folder)
    return (folder / PARQUET).read_bytes() + (folder / CSV).read_bytes()


def workers() -> list[int]:
    """Ray's processes that are simulating now."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if "ray::_run_some" in place.read_text():
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def test_a_killed_worker_is_replaced_and_the_table_is_that_of_processes(
    cluster: Any, tmp_path: Path
) -> None:
    """One of two workers is killed after the first row: every run is there, the bytes are those of
    two local processes, and each run was taken into the table once."""
    assert len(ray.nodes()) == 2
    killed: list[int] = []
    numbers: list[int] = []

    def interrupted(*given: Any) -> Iterator[Any]:
        for number, row in run_on_ray(*given):
            numbers.append(number)
            if not killed:
                killed.append(workers()[0])
                os.kill(killed[0], signal.SIGKILL)
            yield number, row

    ours = swept(tmp_path / "ray", interrupted)
    assert killed
    assert sorted(numbers) == list(range(RUNS))
    assert ours == swept(tmp_path / "processes", runner("here", 2))


def test_a_sweep_given_up_leaves_no_task(cluster: Any, tmp_path: Path) -> None:
    """Whoever stops asking for rows cancels the rest."""
    trace = read_trace("azure-2023-conv")
    work, plan = plan_of(make_grid(BASE, AXES), trace)
    rows = run_on_ray(work, trace, [(n, run.point) for n, run in enumerate(plan)])
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    for _ in range(100):
        if ray.available_resources().get("CPU") == 2:
            break
        time.sleep(0.1)
    assert ray.available_resources().get("CPU") == 2
