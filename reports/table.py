"""A figure as texts, for those who don't see it and those who copy from it."""

from typing import NamedTuple


class Table(NamedTuple):
    """Texts; the first column names the row."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
