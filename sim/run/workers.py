"""Processes that work for this one and never outlive it, however it ends.

Written without a pool: a pool's threads and queues hang where memory is too short to start them.
"""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any, NoReturn, TypeVar

from workloads.errors import InputError
from workloads.places import ENDINGS

Result = TypeVar("Result")

_PR_SET_PDEATHSIG = 1
"""Of Linux's prctl(2): the signal that a process gets when its parent ends."""

FEW = 3
"""Tasks a worker: of so few that are left, each waits for whoever is free first."""

Work = tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]
"""A function, and the arguments of each task."""


def in_workers(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    order: Sequence[int] | None = None,
    as_done: bool = False,
) -> Iterator[Result]:
    """Results of `work(*task)` in the order of tasks, or `as_done`, by `jobs` processes at once.

    Tasks are begun in the given order of their numbers: the longest first leaves no process idle
    at the end. Workers have started when this returns, and end with this process, whether it
    returns, fails or is killed. What a task raises is raised here; a worker that ended without an
    answer is an InputError.
    """
    workers: dict[connection.Connection, BaseProcess] = {}
    # Also before Python waits for its children as it ends: the signal it sends them is blocked.
    ended = Finalize(None, _end, args=(workers,), exitpriority=0)
    try:
        for _ in range(jobs):
            end, process = _started((work, tasks))
            workers[end] = process
    except BaseException:
        ended()
        raise
    return _results(workers, list(range(len(tasks)) if order is None else order), as_done, ended)


def _results(
    workers: dict[connection.Connection, BaseProcess],
    order: list[int],
    as_done: bool,
    ended: Finalize,
) -> Iterator[Any]:
    left = order[::-1]
    asked: dict[connection.Connection, deque[int]] = {end: deque() for end in workers}
    results: dict[int, Any] = {}
    try:
        for turn in range(len(order)):
            while not results if as_done else turn not in results:
                _feed(asked, left)
                for ready in connection.wait([end for end, numbers in asked.items() if numbers]):
                    assert isinstance(ready, connection.Connection), "only those were waited for"
                    results[asked[ready].popleft()] = _answer(ready)
            _feed(asked, left)  # whoever takes the result may take its time
            yield results.pop(next(iter(results)) if as_done else turn)
    finally:
        ended()


def _feed(asked: dict[connection.Connection, deque[int]], left: list[int]) -> None:
    """A task for each worker, and while many are left a second that it finds when it is done."""
    for depth in (1, 2):
        for end, numbers in asked.items():
            if len(numbers) < depth and len(left) > (depth - 1) * FEW * len(asked):
                numbers.append(left.pop())
                _ask(end, numbers[-1])


def _end(workers: dict[connection.Connection, BaseProcess]) -> None:
    for process in workers.values():
        process.kill()
        process.join()


def _forks() -> bool:
    """Whether a copy of this process can work: it has everything in place, and costs no start.

    Not with other threads about, whose locks nobody in the copy would ever let go.
    """
    return sys.platform == "linux" and threading.active_count() == 1


def _started(work: Work) -> tuple[connection.Connection, BaseProcess]:
    if _forks():
        context: Any = multiprocessing.get_context("fork")
        given: Work | bytes = work
    else:
        import cloudpickle  # plug-ins' classes can't be imported elsewhere, so their code is sent

        context = multiprocessing.get_context("spawn")
        given = cloudpickle.dumps(work)
        resource_tracker.ensure_running()  # later it would let the signals through again
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(given, theirs, os.getpid()), daemon=True)
    try:
        with _unheard():
            process.start()
    except BrokenPipeError:
        _died()
    finally:
        theirs.close()  # the worker has its own: when that goes, reading ends
    return ours, process


def _ask(end: connection.Connection, number: int) -> None:
    try:
        end.send(number)
    except BrokenPipeError:
        _died()


def _answer(end: connection.Connection) -> Any:
    try:
        good, value = end.recv()
    except (EOFError, ConnectionResetError):
        _died()
    if not good:
        raise value
    return value


def _died() -> NoReturn:
    raise InputError(
        "a worker process ended before its time, as when memory runs out; expected fewer --jobs "
        "or a smaller trace"
    ) from None


@contextmanager
def _unheard() -> Iterator[None]:
    """What starts now is never interrupted (its parent is, and ends it) and says nothing itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    errors, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        os.close(nowhere)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(given: Work | bytes, end: connection.Connection, parent: int) -> None:
    """A worker's whole life: numbers of tasks come, answers go. Its parent ends it."""
    _end_with(parent)
    work: Work | None = None
    while True:
        number = end.recv()
        try:
            if work is None:
                work = pickle.loads(given) if isinstance(given, bytes) else given  # our own
            function, tasks = work
            answer = True, function(*tasks[number])
        except BaseException as error:
            answer = False, error
        end.send(answer)


def _end_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before this was said
            os._exit(1)
        return

    def watch() -> None:
        process = multiprocessing.parent_process()
        assert process is not None, "a worker has a parent"
        process.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
