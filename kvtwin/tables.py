"""Small tables for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a caption and a row of names; all but the first column stand to the right."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>"


def _cells(row: Sequence[str]) -> str:
    first, *others = map(escape, row)
    return f"<td>{first}</td>" + "".join(
        f"<td style='text-align:right'>{one}</td>" for one in others
    )
