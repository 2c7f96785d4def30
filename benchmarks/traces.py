"""`python -m benchmarks.traces`: what `kvtwin traces describe` takes for large files, as Markdown.

The conversations are made to the counts of the published set that kv-cache-tester calls its traces
(files under 4 MiB: 710 conversations, 49,334 requests, 6.04 billion prompt tokens): prompts grow
through each conversation, its blocks of 64 tokens named as far as they are full. The tables have a
million rows.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.process import kvtwin, measure

CONVERSATIONS, REQUESTS = 710, 49_334
BLOCK = 64
SHORTEST, LONGEST = 40_000, 204_758
"""Prompt tokens of a conversation's first and last request: 122,379 on average."""
ROWS = 1_000_000


def conversations(file: Path, count: int = CONVERSATIONS) -> None:
    """One a line; ids count from 1 in each, as in the published files."""
    longest = LONGEST // BLOCK
    text = ",".join(map(str, range(1, longest + 1)))
    ends = np.cumsum([len(str(one)) + 1 for one in range(1, longest + 1)]) - 1
    with file.open("w", encoding="ascii") as out:
        for number in range(count):
            each = REQUESTS // CONVERSATIONS + (number < REQUESTS % CONVERSATIONS)
            requests = []
            for row, prompt in enumerate(np.linspace(SHORTEST, LONGEST, each).astype(int).tolist()):
                ids = text[: ends[prompt // BLOCK - 1]]
                requests.append(
                    f'{{"t":{17.5 * row + number},"type":"s","model":"m","in":{prompt},"out":440,'
                    f'"hash_ids":[{ids}],"api_time":6.5,"think_time":11.0}}'
                )
            out.write(
                f'{{"id":"c{number}","block_size":{BLOCK},"hash_id_scope":"local","requests":['
                f"{','.join(requests)}]}}\n"
            )


def rows() -> Iterator[tuple[float, int, int]]:
    draw = np.random.default_rng(1)
    arrival = np.round(np.cumsum(draw.exponential(0.01, ROWS)), 3).tolist()
    prompt, output = draw.integers(1, 9000, ROWS).tolist(), draw.integers(1, 900, ROWS).tolist()
    return zip(arrival, prompt, output, strict=True)


NAMES = ("arrival_s", "prompt_tokens", "output_tokens")


def as_csv(file: Path) -> None:
    file.write_text(",".join(NAMES) + "\n" + "".join(f"{a},{p},{o}\n" for a, p, o in rows()))


def as_lines(file: Path) -> None:
    file.write_text(
        "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows())
    )


def as_array(file: Path) -> None:
    file.write_text(json.dumps([dict(zip(NAMES, row, strict=True)) for row in rows()]))


def as_nested(file: Path) -> None:
    """Responses of an OpenAI-like server, a line each."""
    file.write_text(
        "".join(
            f'{{"id":"r","created":{a},"usage":{{"prompt_tokens":{p},"completion_tokens":{o}}}}}\n'
            for a, p, o in rows()
        )
    )


def as_parquet(file: Path) -> None:
    columns = zip(*rows(), strict=True)
    pq.write_table(pa.table(dict(zip(NAMES, map(list, columns), strict=True))), file)


def as_chains(file: Path) -> None:
    """Mooncake's agentic rows: sessions of ten, a pause before each but the first."""
    file.write_text(
        "".join(
            f'{{"session_id":"{row // 10}","timestamp":{int(a * 1000)},"delay":{row % 10 and 900},'
            f'"input_length":{p},"output_length":{o}}}\n'
            for row, (a, p, o) in enumerate(rows())
        )
    )


FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "conversations, 6.04 billion tokens": ("conversations.jsonl", conversations),
    "a million rows, CSV": ("rows.csv", as_csv),
    "a million rows, JSON Lines": ("rows.jsonl", as_lines),
    "a million rows, Parquet": ("rows.parquet", as_parquet),
    "a million rows, one JSON array": ("rows.json", as_array),
    "a million responses, nested fields": ("nested.jsonl", as_nested),
    "a million rows in sessions of ten": ("chains.jsonl", as_chains),
}


def main(only: str = "") -> None:
    """Print a row a file; `only` picks those whose name holds it."""
    print("| file | MB | CPU s | wall s | peak MB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, make) in FILES.items():
            if only not in name:
                continue
            place = Path(folder) / file
            make(place)
            used = measure(kvtwin("traces", "describe", str(place), "--json"))
            megabytes = place.stat().st_size / 1e6
            print(
                f"| {name} | {megabytes:,.0f} | {used.cpu_s:.1f} | {used.wall_s:.1f} | "
                f"{used.peak_mb:,.0f} |",
                flush=True,
            )
            place.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
