"""What is printed: JSON, and tables as wide as the terminal, or as a file needs to read them."""

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NoReturn

from workloads.outgoing import visible_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 160
"""Columns where there is no terminal to ask: a pipe or a file wants rows whole."""


def json_text(value: Any) -> str:
    """JSON that any parser takes: never NaN or Infinity, and names as they are spelled."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)


def print_json(value: Any) -> None:
    """What every `--json` prints."""
    print(json_text(value))


def sheet(*columns: str, right: Collection[str] = ()) -> "Table":
    """An empty table in the one style. Texts break where they don't fit, numbers (`right`) don't:
    a cut number would be a wrong one."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        number = name in right
        table.add_column(
            name, justify="right" if number else "left", overflow="fold", no_wrap=number
        )
    return table


def console() -> "Console":
    """Standard output, for rich's tables. Texts in them are shown as they are: no markup."""
    from rich.console import Console  # late: importing it takes longer than most commands
    from rich.segment import Segment

    class Plain(Console):
        """Shows control characters of texts, and leaves a closed pipe to `main`."""

        def render(self, renderable, options=None):  # type: ignore[no-untyped-def]
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(visible_lines(segment.text), segment.style)

        def on_broken_pipe(self) -> NoReturn:
            raise BrokenPipeError

    found = Plain(markup=False, emoji=False)
    return found if found.is_terminal else Plain(markup=False, emoji=False, width=WIDTH)
