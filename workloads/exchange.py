"""Two paths change places: in one step where the system can, else in three that can be mended."""

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
"""Of Linux's renameat2(2)."""

_UNABLE = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTTY}


def exchange(one: Path, other: Path, spare: Path) -> None:
    """What was at `one` is at `other`, and the reverse. All on one file system.

    Where the system has no call for that, `other` is at `spare` for a moment: whoever is killed
    then leaves it there whole.
    """
    if _exchanged(one, other):
        return
    os.rename(other, spare)
    os.rename(one, other)
    os.rename(spare, one)


def _exchanged(one: Path, other: Path) -> bool:
    call = _renameat2()
    if call is None:
        return False
    code = call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    if code == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNABLE:
        return False
    raise OSError(number, os.strerror(number), str(other))


@cache
def _renameat2() -> Any:
    """The C library's function, or None where it has none."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    call.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    )
    return call
