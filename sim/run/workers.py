"""Processes that work for this one and never outlive it, however it ends.

Written without a pool: a pool's threads and queues hang where memory is too short to start them.
"""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker
from threading import Thread
from typing import Any, NoReturn, TypeVar

from workloads.errors import InputError

Result = TypeVar("Result")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
"""Of Linux's prctl(2): the signal that a process gets when its parent ends."""


def in_workers(
    work: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[Result]:
    """Results of `work(*task)` in the order of the tasks, each in its own process, `jobs` at once.

    Workers end with this process, whether it returns, fails or is killed. What a task raises is
    raised here; a worker that ended without an answer is an InputError.
    """
    import cloudpickle  # plug-ins' classes can't be imported elsewhere, so their code is sent

    left = list(enumerate(tasks))[::-1]
    running: dict[connection.Connection, tuple[int, multiprocessing.process.BaseProcess]] = {}
    results: dict[int, Result] = {}
    try:
        for turn in range(len(tasks)):
            while turn not in results:
                while left and len(running) < jobs:
                    number, task = left.pop()
                    receiver, process = _started(cloudpickle.dumps((work, task)))
                    running[receiver] = number, process
                ready = connection.wait(list(running))
                for receiver in [each for each in running if each in ready]:
                    number, process = running.pop(receiver)
                    results[number] = _answer(receiver)
                    process.join()
            yield results.pop(turn)
    finally:
        for _, process in running.values():
            process.kill()
            process.join()


def _started(pickled: bytes) -> tuple[connection.Connection, multiprocessing.process.BaseProcess]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(pickled, sender, os.getpid()), daemon=True)
    try:
        with _unheard():
            process.start()
    except BrokenPipeError:
        _died()
    finally:
        sender.close()  # the worker has its own: when that goes, reading ends
    return receiver, process


def _answer(receiver: connection.Connection) -> Any:
    try:
        good, value = receiver.recv()
    except EOFError:
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
    resource_tracker.ensure_running()  # later it would let the signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    errors, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        os.close(nowhere)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pickled: bytes, sender: connection.Connection, parent: int) -> None:
    """A worker's whole life."""
    _end_with(parent)
    try:
        work, task = pickle.loads(pickled)  # our own, from the parent
        answer = True, work(*task)
    except BaseException as error:
        answer = False, error
    sender.send(answer)


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

    Thread(target=watch, daemon=True).start()
