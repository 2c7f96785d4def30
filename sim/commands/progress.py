"""How far a command has come: a status line on a terminal, now and then a line elsewhere."""

import sys
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

from workloads.outgoing import visible

if TYPE_CHECKING:
    from rich.status import Status

QUIET_S = 10.0
"""A log hears of what takes longer than this, and not more often."""


class Progress:
    """How many of the runs are done, what is going on, and for about how long."""

    def __init__(self, runs: int, before: int = 0) -> None:
        """`before` of the runs were done earlier, and say nothing of how long the others take."""
        self._runs = runs
        self._done = self._before = before
        self._status: Status | None = None
        self._began = self._said = monotonic()

    def __enter__(self) -> "Progress":
        return self

    def start(self) -> None:
        """Runs begin. On a terminal this starts a thread, so processes are forked before it."""
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(f"{self._done}/{self._runs} simulated")
            self._status.start()

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
        bar = _bar(self._done / self._runs)
        left = self._left(self._done)
        self.say(f"{bar} {self._done}/{self._runs} simulated{left}, last {label}")

    def share(self, share: float) -> None:
        """So much of the run that is going on is done, 0 to 1."""
        done = self._done + share
        whole = f"{self._done}/{self._runs} simulated, " if self._runs > 1 else ""
        of = "the next" if self._runs > 1 else "the requests"
        bar = _bar(done / self._runs)
        self.say(f"{bar} {whole}{share:.0%} of {of}{self._left(done)}")

    def _left(self, done: float) -> str:
        """For how long still, going by what is done, in runs."""
        own = done - self._before
        left = (monotonic() - self._began) / own * (self._runs - done) if own else 0.0
        return f", about {left:,.0f} s left" if left >= 1 else ""

    def say(self, what: str) -> None:
        """Show what is going on."""
        what = visible(what)
        if self._status:
            from rich.text import Text

            self._status.update(Text(what))  # of a text alone, rich would take [words] for markup
        elif monotonic() - self._said >= QUIET_S:
            self._said = monotonic()
            print(what, file=sys.stderr)


def _bar(share: float) -> str:
    filled = round(20 * share)
    return "━" * filled + "─" * (20 - filled)
