"""A status line on a terminal's stderr; nothing where there is none."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """How many of the runs are done, and what is going on."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._done = 0
        self._status: Status | None = None

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(f"0/{self._runs} simulated")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status:
            self._status.stop()

    def done(self, label: str) -> None:
        """A run has ended."""
        self._done += 1
        self.say(f"{self._done}/{self._runs} simulated, last {label}")

    def say(self, what: str) -> None:
        """Show what is going on."""
        if self._status:
            self._status.update(what)
