"""Blocks that signals wait for."""

import os
import signal
import threading
import time
from types import FrameType

import pytest

from workloads.places import uninterrupted


class Ended(Exception):
    """What the handler of a signal raises."""


def test_a_signal_that_another_thread_takes_waits_as_well() -> None:
    """The kernel gives a process's signal to any thread that doesn't block it: Arrow has some."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended(number)

    over = threading.Event()
    other = threading.Thread(target=over.wait)
    before = signal.signal(signal.SIGTERM, end)
    other.start()
    reached: list[bool] = []

    def block() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(20):  # the other thread wakes, and handlers run between instructions
                time.sleep(0.01)
            reached.append(True)

    try:
        with pytest.raises(Ended):
            block()
        assert reached
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
        over.set()
        other.join()


def test_a_block_in_another_thread_runs() -> None:
    done: list[int] = []

    def work() -> None:
        with uninterrupted():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]
