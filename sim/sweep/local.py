"""Runs on this machine's cores: in this process, or in joblib's workers that share the trace.

A worker takes one combination at a time, so that long ones don't wait behind each other, and keeps
what it has loaded. It ends with the process that started it, however that ends.
"""

import gc
import os
import pickle
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from threading import Thread

from sim.policy import plugins
from sim.sweep.evaluate import Row, Work
from sim.sweep.grid import Value
from sim.sweep.shared import map_shared, shared_bytes
from workloads.errors import InputError
from workloads.schema import Trace

Task = tuple[int, dict[str, Value]]

_LOOKS_EVERY_S = 0.5


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
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    for module in plugins.modules:
        cloudpickle.register_pickle_by_value(module)
    with tempfile.TemporaryDirectory(prefix="kvtwin-") as folder:
        (Path(folder) / "trace.arrow").write_bytes(shared_bytes(trace))
        (Path(folder) / "work").write_bytes(cloudpickle.dumps(work))
        calls = (delayed(_run_one)(folder, os.getpid(), *task) for task in tasks)
        pool = Parallel(n_jobs=min(jobs, len(tasks)), batch_size=1, return_as="generator_unordered")
        rows = pool(calls)
        try:
            for row in rows:  # noqa: UP028  # so that closing it is ours, see below
                yield row
        except TerminatedWorkerError:
            raise InputError(
                "a worker process ended before its time, as when memory runs out; finished runs "
                "are kept, expected the same command again, with fewer --jobs"
            ) from None
        finally:
            with warnings.catch_warnings():  # that runs are given up is meant
                warnings.simplefilter("ignore")
                rows.close()


def _run_one(folder: str, parent: int, number: int, point: dict[str, Value]) -> tuple[int, Row]:
    work, trace = _loaded(folder, parent)
    return number, work.run(trace, point)


@cache
def _loaded(folder: str, parent: int) -> tuple[Work, Trace]:
    """Once a worker."""
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    work: Work = pickle.loads((Path(folder) / "work").read_bytes())  # our own, from the parent
    loaded = work, map_shared(Path(folder) / "trace.arrow")
    gc.freeze()  # loky collects garbage once a second, and would look at all modules each time
    return loaded


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOKS_EVERY_S)
    os._exit(1)
