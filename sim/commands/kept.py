"""Commands whose finished runs stay when they are interrupted."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT


@contextmanager
def keeping_runs(output: Path) -> Iterator[None]:
    """An interruption inside the block takes one line and its exit code; what is in the folder's
    journal stays."""
    try:
        yield
    except KeyboardInterrupt as error:
        where = f"finished runs are kept in {output}, and the same command goes on"
        print(f"kvtwin: interrupted; {where}", file=sys.stderr)
        raise SystemExit(128 + getattr(error, "number", SIGINT)) from None
