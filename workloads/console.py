"""Where tables are printed: as wide as the terminal, or wide enough for a file to read them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 160
"""Columns where there is no terminal to ask: a pipe or a file wants rows whole."""


def console() -> "Console":
    """Standard output, for rich's tables."""
    from rich.console import Console  # late: importing it takes longer than most commands

    found = Console()
    return found if found.is_terminal else Console(width=WIDTH)
