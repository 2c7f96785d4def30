"""Malformed traces through their readers, beside a reader of the test's own.

`tests/workloads/malformed.py` has a variant of every format; here are bytes, archives and tables.
"""

import csv
import gzip
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fuzz import independent
from tests.fuzz.conftest import Outcome
from tests.fuzz.mutate import bytes_of, json_of, seeds, spoiled
from workloads import read_trace
from workloads.read import read_any
from workloads.schema import Trace

OWN = "arrival_s,prompt_tokens,output_tokens\n0,10,5\n1.5,20,6\n2.25,30,7\n"
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,10,5\n"
    "2023-11-16 18:17:04.0000000,20,6\n2023-11-16 18:17:05.5000000,30,7\n"
)
LINES = "".join(
    json.dumps({"timestamp": t, "input_length": n, "output_length": 5, "hash_ids": ids}) + "\n"
    for t, n, ids in ((0, 513, [1, 2]), (1000, 20, [3]), (2500, 1024, [1, 4]))
)
TALK = {
    "id": "a", "block_size": 4, "hash_id_scope": "local",
    "requests": [
        {"type": "n", "t": 0.0, "in": 8, "out": 3, "hash_ids": [0, 1]},
        {"type": "s", "t": 9.5, "in": 12, "out": 2, "hash_ids": [0, 1, 2], "think_time": 1.0},
    ],
}  # fmt: skip

WHOLE = re.compile(r"(\d{1,19})(\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def served(trace: Trace) -> list[tuple[int, int]]:
    """Prompt and output of every request."""
    return sorted(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))


def lengths(path: Any) -> list[tuple[int, int]]:
    """Prompt and output of a trace in Parquet, of requests with output."""
    table = independent.parquet(path)
    found = []
    for name in ("prompt_tokens", "output_tokens"):
        independent.need(table.column_names.count(name) == 1, name)
        values = [
            int(v) if isinstance(v, float) and v == int(v) else v for v in table[name].to_pylist()
        ]
        independent.need(all(independent.is_count(value, 0) for value in values), name)
        found.append(values)
    rows = list(zip(*found, strict=True))
    independent.need(all(prompt for prompt, _ in rows))
    return sorted(row for row in rows if row[1])


def conversation(content: bytes) -> list[tuple[int, int]]:
    """Prompt and output of every request of a conversation, those with output."""
    talk = independent.strict_json(content)
    independent.need(isinstance(talk, dict) and isinstance(talk.get("requests"), list))
    rows = []
    for row in talk["requests"]:
        independent.need(isinstance(row, dict) and independent.is_number(row.get("t")))
        independent.need(independent.is_count(row.get("in")))
        independent.need(independent.is_count(row.get("out"), 0))
        rows.append((row["in"], row["out"]))
    return sorted(row for row in rows if row[1])


def counted(prompt: Any, output: Any) -> tuple[int, int]:
    def whole(value: Any) -> int:
        if isinstance(value, str):
            match = WHOLE.fullmatch(value.strip())
            assert match
            value = int(match[1])
        assert not isinstance(value, bool)
        assert value == int(value)
        assert 0 <= value < 2**63
        return int(value)

    assert whole(prompt) >= 1
    return whole(prompt), whole(output)


def own_csv(content: bytes, clock: str, names: tuple[str, str]) -> list[tuple[int, int]] | None:
    """Prompt and output of every row with output, by Python's csv; None where a row is no row."""
    try:
        rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"))) if row]
        header = [name.strip() for name in rows[0]]
        found = []
        for row in rows[1:]:
            assert len(row) == len(header)
            fields = dict(zip(header, row, strict=True))
            stamp = fields[clock].strip()
            if clock == "arrival_s":
                assert NUMBER.fullmatch(stamp)
                assert 0 <= float(stamp) < math.inf
            else:
                assert re.fullmatch(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?", stamp)
            found.append(counted(*(fields[name] for name in names)))
        return [pair for pair in found if pair[1]]
    except (AssertionError, ValueError, KeyError, IndexError, csv.Error):
        return None


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("text", "clock", "names"),
    [
        (OWN, "arrival_s", ("prompt_tokens", "output_tokens")),
        (AZURE, "TIMESTAMP", ("ContextTokens", "GeneratedTokens")),
    ],
    ids=["own", "azure"],
)
def test_csv_traces(
    tmp_path: Path, outcome: Outcome, text: str, clock: str, names: tuple[str, str], packed: bool
) -> None:
    header = text.split("\n")[0].encode()
    for rng in seeds(f"csv {clock} {packed}"):
        content = bytes_of(text.encode(), rng)
        stored = gzip.compress(content) if packed else content
        (tmp_path / "trace").write_bytes(bytes_of(stored, rng) if packed else stored)
        if packed and rng.random() < 0.5:
            content = b""  # the archive itself is damaged: only the manner of refusal counts
        else:
            (tmp_path / "trace").write_bytes(stored)
        trace = outcome(lambda: read_trace(tmp_path / "trace"))
        if trace is not None and content.removeprefix(b"\xef\xbb\xbf").startswith(header + b"\n"):
            expected = own_csv(content, clock, names)
            assert expected is not None, content
            assert served(trace) == sorted(expected), content


def test_json_lines_traces(tmp_path: Path, outcome: Outcome) -> None:
    for rng in seeds("jsonl"):
        content = bytes_of(LINES.encode(), rng)
        (tmp_path / "trace").write_bytes(content)
        trace = outcome(lambda: read_any(tmp_path / "trace"))
        if trace is None or not content.startswith(LINES[:60].encode()):
            continue
        rows = [json.loads(line) for line in content.split(b"\n") if line.strip()]
        assert all(isinstance(row, dict) for row in rows)
        expected = [counted(row["input_length"], row["output_length"]) for row in rows]
        assert served(trace) == sorted(pair for pair in expected if pair[1]), content


def test_parquet_traces(tmp_path: Path, outcome: Outcome) -> None:
    table = pa.table({"arrival_s": [0.0, 1.0], "prompt_tokens": [1, 2], "output_tokens": [3, 4]})
    for rng in seeds("parquet"):
        pq.write_table(spoiled(table, rng), tmp_path / "trace")
        if rng.random() < 0.5:
            content = bytes_of((tmp_path / "trace").read_bytes(), rng)
            (tmp_path / "trace").write_bytes(content)
        trace = outcome(lambda: read_any(tmp_path / "trace"))
        if trace is not None:
            assert served(trace) == lengths(tmp_path / "trace")


def test_conversations(tmp_path: Path, outcome: Outcome) -> None:
    for rng in seeds("conversation"):
        content = json_of(TALK, rng)
        (tmp_path / "talk.jsonl").write_bytes(content + b"\n")
        trace = outcome(lambda: read_any(tmp_path / "talk.jsonl"))
        if trace is not None:
            assert served(trace) == conversation(content), content
