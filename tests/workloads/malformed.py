"""Malformed variants of every kind of trace file, and what an independent reader makes of them.

`python -m tests.workloads.malformed 300` prints how many of each were refused and accepted.
"""

import csv
import io
import json
import math
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.workloads import malformed_sessions as more
from workloads import read_trace
from workloads.errors import InputError

Row = tuple[Any, Any, Any]  # arrival, prompt, output as the file says them
T0 = 1_700_000_000
BASE: list[Row] = [(0.0, 30, 5), (1.5, 40, 6), (2.25, 17, 1), (9.0, 100, 12)]
HOSTILE_JSON: list[Any] = [
    None, True, False, -1, 0, 1.5, 7.0, "7", "x", "", [], [1], {}, {"a": 1}, 2**53, 2**53 + 1,
    2**63, -(2**63), 10**30, 1e300, math.nan, math.inf, "2026-01-02 03:04:05", "\u2028", "é",
]  # fmt: skip
HOSTILE_CSV = [
    "", " ", "-1", "0", "1.5", "7.0", "7.", " 8 ", "x", "1e3", "0x10", "NaN", "inf", "+4", "1_000",
    "9007199254740993", "9223372036854775808", "1" * 400, '"9"', "true", "2026-01-02 03:04:05", "٣",
]  # fmt: skip


class Kind:
    """A format: how it is written, how its numbers are found again, and what a good row is."""

    def __init__(
        self,
        write: Callable[[list[Row]], str],
        find: Callable[[str], list[Row]],
        failed_rows: bool = False,
        stamps: bool = False,
        whole_arrival: bool = False,
        text: bool = False,
        columns: str | None = None,
        no_stamp: bool = False,
    ) -> None:
        self.write, self.find, self.text = write, find, text
        self.columns, self.no_stamp = columns, no_stamp
        self.failed_rows, self.stamps, self.whole_arrival = failed_rows, stamps, whole_arrival

    def good(self, row: Row) -> bool:
        arrival, prompt, output = row
        if self.says_nothing(row):
            return self._arrives(arrival)
        least = 0 if self.failed_rows else 1
        return (
            self._arrives(arrival)
            and whole(prompt, least, self.text)
            and whole(output, 0, self.text)
        )

    def says_nothing(self, row: Row) -> bool:
        """Whether it is a failed request without counts."""
        return self.failed_rows and all(
            value is None or (self.text and not value.strip()) for value in row[1:]
        )

    def _arrives(self, value: Any) -> bool:
        if value is None and self.no_stamp:
            return True
        if self.stamps:
            return isinstance(value, str) and is_stamp(value.strip())
        if self.whole_arrival:
            return whole(value, 0, self.text)
        if self.text:
            plain = re.fullmatch(
                r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value.strip()
            )
            return bool(plain) and 0 <= float(value) < math.inf
        return type(value) in (int, float) and 0 <= value < math.inf


def whole(value: Any, least: int, text: bool) -> bool:
    """Whether that is a whole number of at least so much that 64 bits and a double can hold."""
    if text:
        match = re.fullmatch(r"(-?[0-9]+)(\.0*)?", value.strip())
        return bool(match) and least <= int(match[1]) < 2**63  # type: ignore[index]
    if type(value) is float:
        return value.is_integer() and least <= value <= 2**53
    return type(value) is int and least <= value < 2**63


def count(value: Any) -> int:
    """The whole number that it says, to the last digit."""
    return int(value.strip().split(".")[0]) if isinstance(value, str) else int(value)


def is_stamp(text: str) -> bool:
    """A calendar time as Python's own reader takes it, seconds included."""
    if not re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def csv_kind(header: str, delimiter: str = ",", **options: Any) -> Kind:
    names = header.split(",")
    roles = [names.index(name) for name in options.pop("roles", names[:3])]
    stamps = options.get("stamps", False)
    fill = options.pop("fill", {})

    def write(rows: list[Row]) -> str:
        out = io.StringIO()
        lines = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        lines.writerow(names)
        for row in rows:
            cells = [fill.get(name, "z") for name in names]
            for place, value in zip(roles, row, strict=True):
                cells[place] = stamp(value) if stamps and place == roles[0] else value
            lines.writerow(cells)
        return out.getvalue()

    def find(text: str) -> list[Row]:
        lines = [line for line in csv.reader(io.StringIO(text), delimiter=delimiter) if line][1:]
        return [tuple(line[place] for place in roles) for line in lines]  # type: ignore[misc]

    return Kind(write, find, text=True, **options)


def json_kind(
    make: Callable[[Row], dict[str, Any]],
    paths: tuple[str, str, str],
    wrap: str = "",
    **options: Any,
) -> Kind:
    """One object a row, by lines or under `wrap` ("[]": an array)."""

    def write(rows: list[Row]) -> str:
        found = [make(row) for row in rows]
        if wrap == "[]":
            return json.dumps(found, indent=1)
        return json.dumps({wrap: found}) if wrap else "".join(json.dumps(r) + "\n" for r in found)

    def find(text: str) -> list[Row]:
        if wrap:
            content = json.loads(text)
            rows = content if wrap == "[]" else content[wrap]
        else:
            rows = more.loaded(text)
        return [tuple(at(row, path) for path in paths) for row in rows]  # type: ignore[misc]

    return Kind(write, find, **options)


def at(row: Any, path: str) -> Any:
    for name in path.split("/"):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def stamp(value: Any) -> Any:
    if type(value) is not float:
        return value
    return f"2026-01-02 03:04:{5 + value:012.9f}"


def nanoseconds(value: Any) -> Any:
    return int(value * 1e9) if type(value) is float and value < 1e3 else value


def bench(rows: list[Row]) -> str:
    columns = zip(*rows, strict=True)
    return json.dumps(dict(zip(("start_times", "input_lens", "output_lens"), columns, strict=True)))


def bench_found(text: str) -> list[Row]:
    content = json.loads(text)
    return list(
        zip(content["start_times"], content["input_lens"], content["output_lens"], strict=True)
    )


KINDS: dict[str, Kind] = {
    "kvtwin csv": csv_kind("arrival_s,prompt_tokens,output_tokens"),
    "semicolons": csv_kind("arrival_s,prompt_tokens,output_tokens", ";"),
    "tabs": csv_kind("arrival_s,prompt_tokens,output_tokens", "\t"),
    "azure": csv_kind("TIMESTAMP,ContextTokens,GeneratedTokens", stamps=True),
    "burstgpt": csv_kind(
        "Timestamp,Model,Request tokens,Response tokens",
        roles=("Timestamp", "Request tokens", "Response tokens"),
        failed_rows=True,
    ),
    "burstgpt, version 3": csv_kind(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens",
        roles=("Timestamp", "Request tokens", "Response tokens"),
        fill={"Elapsed time": "0.5"},
        failed_rows=True,
    ),
    "named columns": csv_kind(
        "at,chat,in,out",
        "\t",
        roles=("at", "in", "out"),
        failed_rows=True,
        columns="arrival=at:s,prompt=in,output=out,session=chat",
    ),
    "vidur": csv_kind("arrived_at,num_prefill_tokens,num_decode_tokens"),
    "litellm": csv_kind(
        "id,startTime,prompt_tokens,completion_tokens",
        roles=("startTime", "prompt_tokens", "completion_tokens"),
        stamps=True,
        failed_rows=True,
    ),
    "kvtwin lines": json_kind(
        lambda r: {"arrival_s": r[0], "prompt_tokens": r[1], "output_tokens": r[2]},
        ("arrival_s", "prompt_tokens", "output_tokens"),
    ),
    "array": json_kind(
        lambda r: {"arrival_s": r[0], "prompt_tokens": r[1], "output_tokens": r[2]},
        ("arrival_s", "prompt_tokens", "output_tokens"),
        "[]",
    ),
    "openai": json_kind(
        lambda r: {"created": r[0], "usage": {"prompt_tokens": r[1], "completion_tokens": r[2]}},
        ("created", "usage/prompt_tokens", "usage/completion_tokens"),
        failed_rows=True,
    ),
    "vllm-seconds": json_kind(
        lambda r: {"arrival_time": r[0], "input_toks": r[1], "output_toks": r[2]},
        ("arrival_time", "input_toks", "output_toks"),
    ),
    "aiperf": json_kind(
        lambda r: {
            "metadata": {"request_start_ns": nanoseconds(r[0])},
            "metrics": {
                "input_sequence_length": {"value": r[1]},
                "output_sequence_length": {"value": r[2]},
            },
        },
        (
            "metadata/request_start_ns",
            "metrics/input_sequence_length/value",
            "metrics/output_sequence_length/value",
        ),
        whole_arrival=True,
        failed_rows=True,
    ),
    "langfuse": json_kind(
        lambda r: {"startTime": stamp(r[0]), "usageDetails": {"input": r[1], "output": r[2]}},
        ("startTime", "usageDetails/input", "usageDetails/output"),
        "data",
        stamps=True,
        failed_rows=True,
    ),
    "vllm-bench": Kind(bench, bench_found, failed_rows=True),
    "openai, flat": json_kind(
        lambda r: {"created": r[0], "prompt_tokens": r[1], "completion_tokens": r[2]},
        ("created", "prompt_tokens", "completion_tokens"),
        failed_rows=True,
    ),
    "mooncake": Kind(more.lines(more.mooncake), more.bailian_found),
    "bailian": Kind(more.lines(more.bailian), more.bailian_found),
    "opentelemetry": Kind(more.spans, more.spans_found, whole_arrival=True),
    "guidellm": Kind(more.guidellm, more.guidellm_found),
    "conversations": Kind(more.conversations, more.conversations_found, failed_rows=True),
    "sessions, rows": Kind(
        more.lines(more.agentic), more.agentic_found, failed_rows=True, no_stamp=True
    ),
    "sessions, nested": Kind(more.nested_chain, more.nested_chain_found, failed_rows=True),
}
PARQUET = Kind(lambda rows: "", lambda text: [])


def variant(kind: Kind, seed: int) -> str:
    """A file with one to three faults, or none: values replaced, or its text cut and changed."""
    draw = random.Random(seed)
    rows: list[list[Any]] = [list(row) for row in BASE]
    hostile = HOSTILE_CSV if kind.text else HOSTILE_JSON
    if draw.random() < 0.7:
        for _ in range(draw.randint(1, 2)):
            draw.choice(rows)[draw.randrange(3)] = draw.choice(hostile)
    text = kind.write([(a, b, c) for a, b, c in rows])
    if draw.random() < 0.5:
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(text))
            length = draw.choice([0, 1, 1, 5])
            put = draw.choice(
                ["", "", "0", "9", "-", '"', "\n", ",", "{", "[", "\0", "\u2028", ":"]
            )
            text = text[:place] + put + text[place + length :]
    return text


def outcome(kind: Kind, text: str, path: Path) -> str:
    """ "refused" or "accepted"; an AssertionError for a traceback's worth or a wrong count."""
    path.write_text(text, encoding="utf-8")
    return judged(kind, path, lambda: kind.find(text), text)


def parquet_outcome(seed: int, path: Path) -> str:
    """The same of a Parquet file."""
    more.parquet_variant(BASE, seed, path)
    return judged(PARQUET, path, lambda: more.parquet_found(path), f"seed {seed}")


def judged(kind: Kind, path: Path, find: Callable[[], list[Row]], text: str) -> str:
    said = None
    try:
        trace = read_trace(path, columns=kind.columns)
    except InputError as error:
        said = str(error)
    if said is not None:
        assert said, text
        assert "\n" not in said, said
        return "refused"
    try:
        rows = find()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, csv.Error) as error:
        raise AssertionError(f"accepted what nobody else reads ({error}): {text!r}") from None
    bad = [row for row in rows if not kind.good(row)]
    assert not bad, f"accepted {bad[0]}: {text!r}"
    kept = [(count(p), count(o)) for row in rows if not kind.says_nothing(row) for _, p, o in [row]]
    kept = [(p, o) for p, o in kept if p and o]
    found = sorted(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))
    assert found == sorted(kept), text
    assert len(trace) + sum(trace.provenance.dropped.values()) == len(rows), text
    return "accepted"


def main(count: int) -> None:
    """Print counts; the first wrong one ends it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in KINDS.items():
            seen = Counter(
                outcome(kind, variant(kind, seed), Path(folder) / "f") for seed in range(count)
            )
            print(f"{name}: {seen['refused']} refused, {seen['accepted']} accepted", flush=True)
        seen = Counter(parquet_outcome(seed, Path(folder) / "p") for seed in range(count))
        print(f"parquet: {seen['refused']} refused, {seen['accepted']} accepted", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
