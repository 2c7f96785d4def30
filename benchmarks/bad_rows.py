"""`python -m benchmarks.bad_rows`: how long until the last of 26 million rows is named as bad.

Takes some 3 GB of disk while it runs; another number of rows may be given.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.process import kvtwin, measure

ROWS = 26_000_000
BLOCK = 1_000_000
NAMES = ("arrival_s", "prompt_tokens", "output_tokens")
ROW = (12.345, 1024, 128)


def csv_row(row: tuple[object, ...]) -> str:
    return ",".join(map(str, row)) + "\n"


def json_row(row: tuple[object, ...]) -> str:
    fields = (f'"{name}": {value}' for name, value in zip(NAMES, row, strict=True))
    return "{" + ", ".join(fields) + "}\n"


KINDS: dict[str, tuple[str, Callable[[tuple[object, ...]], str]]] = {
    "CSV": (csv_row(NAMES), csv_row),
    "JSON Lines": ("", json_row),
}


def write(file: Path, kind: str, rows: int) -> None:
    """Rows alike but for the last, which has no prompt."""
    head, text_of = KINDS[kind]
    block = text_of(ROW) * BLOCK
    with file.open("w", encoding="ascii") as out:
        out.write(head)
        whole, rest = divmod(rows - 1, BLOCK)
        for _ in range(whole):
            out.write(block)
        out.write(text_of(ROW) * rest + text_of((12.345, 0, 128)))


def main(rows: str = str(ROWS)) -> None:
    """Print a row a kind of file."""
    print("| file | MB | CPU s | wall s | peak MB |\n|---|---|---|---|---|")
    for kind, (head, _) in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            file, said = Path(folder) / "trace", Path(folder) / "said"
            write(file, kind, int(rows))
            line = int(rows) + bool(head)
            named = f"line {line}: prompt_tokens is 0"
            script = f'"$@" 2>{said}; grep -q "{named}" {said}'
            command = ["/bin/sh", "-c", script, "sh", *kvtwin("traces", "describe", str(file))]
            used = measure(command)
            print(
                f"| {int(rows):,} rows of {kind} | {file.stat().st_size / 1e6:,.0f} | "
                f"{used.cpu_s:.1f} | {used.wall_s:.1f} | {used.peak_mb:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
