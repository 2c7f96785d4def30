"""Runs on a Ray cluster: the same plan, rows streamed back, no file system in common.

The trace is put into the object store once, and mapped by the workers of each node. A task is a few
combinations; Ray gives those of a worker that died to another. Nodes need what kvtwin depends on;
its own code is sent along to a cluster that is reached by `ray://`.
"""

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.policy import plugins
from sim.sweep.evaluate import Row, Work
from sim.sweep.grid import Value
from sim.sweep.local import Task
from sim.sweep.shared import map_shared, shared_bytes
from workloads.errors import InputError
from workloads.schema import Trace

RETRIES = 5
"""Of a task whose worker died; one that dies each time, as for lack of memory, is told."""

MOST_IN_A_TASK = 20
TASKS_A_CORE = 8
"""So many at least, as far as there are combinations, so that none is idle long at the end."""

SENT = ("sim", "workloads", "reports")
"""Packages that a remote cluster is sent."""


def run_on_ray(
    work: Work, trace: Trace, tasks: Sequence[Task], address: str | None = None
) -> Iterator[tuple[int, Row]]:
    """Rows by the tasks' numbers, as they are done, on the cluster at `ray://HOST:PORT`, or on the
    one that this machine belongs to, or on one of its own cores.

    Raises InputError without Ray, without the cluster, and where workers keep dying.
    """
    if not tasks:
        return
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise InputError("--on ray: needs Ray; expected pip install 'kvtwin[ray]'") from None
    import cloudpickle

    for module in plugins.modules:
        cloudpickle.register_pickle_by_value(module)
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address)
    waiting: list[Any] = []
    try:
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        size = min(MOST_IN_A_TASK, max(1, len(tasks) // (TASKS_A_CORE * cores)))
        shared = ray.put(np.frombuffer(shared_bytes(trace), dtype=np.uint8))
        sent = ray.put(cloudpickle.dumps(work))
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_run_some)
        chunks = [list(tasks[i : i + size]) for i in range(0, len(tasks), size)][::-1]
        while chunks or waiting:
            while chunks and len(waiting) < 2 * cores:
                waiting.append(remote.remote(shared, sent, chunks.pop()))
            done, waiting = ray.wait(waiting, num_returns=1)
            for rows in ray.get(done):
                yield from rows
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"--on ray: {type(error).__name__}: {reason}") from None
    finally:
        for task in waiting:
            ray.cancel(task, force=True)
        if ours:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    """Join a cluster, or start one on this machine."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is not None:
        house = Path(__file__).parents[2]
        options |= {"address": address}
        options["runtime_env"] = {"py_modules": [str(house / package) for package in SENT]}
    try:
        if address is None and "RAY_ADDRESS" not in os.environ:
            try:
                ray.init(address="auto", **options)
            except ConnectionError:  # this machine belongs to none
                ray.init(include_dashboard=False, **options)
        else:
            ray.init(**options)
    except Exception as error:  # a node that doesn't start in time raises just that
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"--on {address or 'ray'}: no cluster: {reason}") from None


def _run_some(
    shared: NDArray[np.uint8], sent: bytes, tasks: list[tuple[int, dict[str, Value]]]
) -> list[tuple[int, Row]]:
    """In a worker: `shared` is a view of the node's object store."""
    import pickle

    work: Work = pickle.loads(sent)  # our own, from the driver
    trace = map_shared(shared)
    return [(number, work.run(trace, point)) for number, point in tasks]
