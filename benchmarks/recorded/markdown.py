"""Tables of the page."""

from collections.abc import Iterable


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
