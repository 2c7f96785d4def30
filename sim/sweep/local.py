"""Runs on this machine's cores: in this process, or in workers that share its start and the trace.

The trace is written once, as Arrow columns that every worker maps, into a file without a name: no
kill leaves it behind. A worker takes one combination at a time, so that long ones don't wait behind
each other, and ends with the process that started it, however that ends (`sim.run.workers`).
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import IO

from sim.policy import plugins
from sim.run.workers import in_workers
from sim.sweep.evaluate import Row, Work
from sim.sweep.grid import Value
from sim.sweep.shared import map_shared, shared_bytes
from workloads.errors import InputError
from workloads.schema import Trace

Task = tuple[int, dict[str, Value]]


def run_here(
    work: Work, trace: Trace, tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[int, Row]]:
    """Rows by the tasks' numbers, as they are done. Raises InputError where a worker dies."""
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: expected at least 1")
    if jobs == 1 or len(tasks) < 2:
        for number, point in tasks:
            yield number, work.run(trace, point)
        return
    import cloudpickle

    for module in plugins.modules:
        cloudpickle.register_pickle_by_value(module)
    with tempfile.TemporaryFile() as file:
        place = _shared(shared_bytes(trace), file)
        # what is loaded here is there for all who fork; a run that loads no more is theirs
        here = tasks[:1] if work.loads(trace, tasks[0][1]) else []
        done = [(number, work.run(trace, point)) for number, point in here]
        rest = tasks[len(here) :]
        worker = partial(_run_one, work, place)
        rows = in_workers(worker, rest, min(jobs, len(rest)), as_done=True)
        yield from done
        yield from rows


def _shared(content: bytes, file: IO[bytes]) -> Path | bytes:
    """Where workers find the content: in the open file, or with their task where it has no path."""
    if sys.platform != "linux":
        return bytes(content)
    file.write(content)
    file.flush()
    return Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")


def _run_one(
    work: Work, place: Path | bytes, number: int, point: dict[str, Value]
) -> tuple[int, Row]:
    return number, work.run(_mapped(place), point)


@cache
def _mapped(place: Path | bytes) -> Trace:
    """Once a worker."""
    return map_shared(place)
