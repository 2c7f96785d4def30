"""Places to write to: what a path means, and one writer at a time."""

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workloads.errors import InputError

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process and are answered in one line."""

_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


def resolved(path: Path) -> Path:
    """The absolute place: `~` is the home, and a symlink is what it names."""
    return Path(os.path.realpath(os.path.expanduser(path)))


@contextmanager
def locked(path: Path, label: Path, flags: int) -> Iterator[bool]:
    """Hold the file or folder at `path`, opened with `flags`, until the block ends.

    The lock goes with the process, however it ends: who holds it knows that whatever lies there
    was left by a writer that died. False where the file system has no locks. Raises InputError
    where another process holds it.
    """
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            held = True
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{label}: another run is writing it, expected to wait for its end"
                ) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                held = False
            if _is_at(descriptor, path):
                yield held
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the path still names it: an earlier holder may have removed it just now."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that end the process wait for the end of the block.

    By handlers and not by a mask: a mask is a thread's own, and libraries' threads have none. Where
    the block runs in another than the main thread, which alone hears signals, nothing waits.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDINGS}
    try:
        for number in ENDINGS:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def parents_of(place: Path) -> Iterator[None]:
    """Make the folders above `place` that don't exist; they go again if the block fails."""
    absent = [folder for folder in place.parents if not folder.exists()]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in absent:  # the deepest first
            with suppress(OSError):
                folder.rmdir()
        raise
