"""Standard output and errors, whatever the process was started with."""

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import cast

from workloads.outgoing import Visible


def open_streams() -> None:
    """Make both streams writable and safe: a closed one leads nowhere, a text's escapes are shown.

    A closed descriptor is filled first, or the next file that is opened would take its place.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign gets a ?
        setattr(sys, name, cast(TextIOWrapper, Visible(stream)))


def close_streams() -> None:
    """Leave nothing for the interpreter to write when it ends: nobody may be there to read it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
            continue
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
