"""More kinds of files for `malformed`: sessions, spans, benchmarks' exports, and Parquet."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[Any, Any, Any]
BLOCK = 16


def blocks(tokens: Any, size: int = BLOCK, partial: bool = False) -> list[int]:
    """Ids of a prompt's full blocks; none where it has no length."""
    if type(tokens) is not int or not 0 <= tokens < 10_000:
        return []
    return list(range(-(-tokens // size) if partial else tokens // size))


def lines(make: Callable[[int, Row], dict[str, Any]]) -> Callable[[list[Row]], str]:
    return lambda rows: "".join(json.dumps(make(i, row)) + "\n" for i, row in enumerate(rows))


def loaded(text: str) -> list[Any]:
    """The values that stand one after another; an object may go on in the next line."""
    found, at, decode = [], 0, json.JSONDecoder().raw_decode
    text = text.strip()
    while at < len(text):
        value, end = decode(text, at)
        found.append(value)
        at = end + len(text[end:]) - len(text[end:].lstrip())
        assert at == len(text) or "\n" in text[end:at], "two values in a line"
    return found


def request(row: Row) -> dict[str, Any]:
    return {
        "t": row[0], "type": "s", "in": row[1], "out": row[2], "hash_ids": blocks(row[1]),
        "api_time": 0.25, "think_time": 0.5,
    }  # fmt: skip


def conversations(rows: list[Row]) -> str:
    """Two conversations; the second row of each is a sub-agent's."""
    found = []
    for number in range(0, len(rows), 2):
        first, *rest = rows[number : number + 2]
        nested = [{"type": "subagent", "t": 0, "requests": [request(row)]} for row in rest]
        found.append({"id": "c", "block_size": BLOCK, "requests": [request(first), *nested]})
    return "".join(json.dumps(one) + "\n" for one in found)


def conversations_found(text: str) -> list[Row]:
    found: list[Row] = []
    for talk in loaded(text):
        assert type(talk["block_size"]) is int
        for part in talk["requests"]:
            calls = part["requests"] if part["type"] == "subagent" else [part]
            found += [(one["t"], one["in"], one["out"]) for one in calls]
    return found


def agentic(number: int, row: Row) -> dict[str, Any]:
    """Mooncake's: two sessions whose rows alternate."""
    return {
        "session_id": f"s{number % 2}", "timestamp": row[0], "delay": 100, "input_length": row[1],
        "output_length": row[2],
    }  # fmt: skip


def agentic_found(text: str) -> list[Row]:
    return [(row.get("timestamp"), row.get("input_length"), row.get("output_length"))
            for row in loaded(text)]  # fmt: skip


def nested_chain(rows: list[Row]) -> str:
    """LLMServingSim's: a session of two requests a line. An arrival is the session's alone."""
    found = []
    for number in range(0, len(rows), 2):
        inner = [{"input_toks": row[1], "output_toks": row[2], "tool_duration_ns": 5}
                 for row in rows[number : number + 2]]  # fmt: skip
        found.append({"arrival_time_ns": rows[number][0], "sub_requests": inner})
    return "".join(json.dumps(one) + "\n" for one in found)


def nested_chain_found(text: str) -> list[Row]:
    return [
        (session.get("arrival_time_ns"), one.get("input_toks"), one.get("output_toks"))
        for session in loaded(text)
        for one in session["sub_requests"]
    ]


def bailian(number: int, row: Row) -> dict[str, Any]:
    return {
        "chat_id": number, "parent_chat_id": number - 1, "timestamp": row[0],
        "input_length": row[1], "output_length": row[2], "turn": 1,
        "hash_ids": blocks(row[1], partial=True),
    }  # fmt: skip


def bailian_found(text: str) -> list[Row]:
    return [(row.get("timestamp"), row.get("input_length"), row.get("output_length"))
            for row in loaded(text)]  # fmt: skip


def mooncake(number: int, row: Row) -> dict[str, Any]:
    return {
        "timestamp": row[0], "input_length": row[1], "output_length": row[2],
        "hash_ids": blocks(row[1], 512, partial=True),
    }  # fmt: skip


NAMES = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")


def spans(rows: list[Row]) -> str:
    """OTLP/JSON, where whole numbers are texts."""
    found = []
    for row in rows:
        start = int(row[0] * 1e9) if type(row[0]) is float and row[0] < 1e3 else row[0]
        values = [str(one) if type(one) is int else one for one in (start, *row[1:])]
        attributes = [{"key": name, "value": {"intValue": value}}
                      for name, value in zip(NAMES, values[1:], strict=True)]  # fmt: skip
        found.append({"startTimeUnixNano": values[0], "attributes": attributes})
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": found}]}]})


def spans_found(text: str) -> list[Row]:
    found: list[Row] = []
    for resource in json.loads(text)["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                values = {one["key"]: next(iter(one["value"].values()))
                          for one in span.get("attributes", []) if one["value"]}  # fmt: skip
                if not set(NAMES) & set(values):
                    continue  # a span of something else
                row = (span.get("startTimeUnixNano"), *(values.get(name) for name in NAMES))
                found.append(tuple(map(number_of, row)))  # type: ignore[arg-type]
    return found


def number_of(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def guidellm(rows: list[Row]) -> str:
    found = [{"start_time": a, "prompt_tokens": p, "output_tokens": o} for a, p, o in rows]
    return json.dumps({"benchmarks": [{"requests": {"successful": found, "errored": []}}]})


def guidellm_found(text: str) -> list[Row]:
    return [
        (one.get("start_time"), one.get("prompt_tokens"), one.get("output_tokens"))
        for benchmark in json.loads(text)["benchmarks"]
        for one in benchmark["requests"]["successful"]
    ]


COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")
HOSTILE: list[Any] = [None, -1, 0, 1, 2**53 + 1, 2**62]
HOSTILE_FLOATS = [None, -1.0, 0.0, 1.5, 7.0, 2.0**53, 1e300, math.nan, math.inf]
HOSTILE_TEXTS = [None, "", "7", "x", "10.0", "2026-01-02 03:04:05"]


def parquet_variant(rows: list[Row], seed: int, path: Path) -> None:
    """Write a Parquet file with hostile values, of another type, or with some bytes changed."""
    draw = random.Random(seed)
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
    if draw.random() < 0.6:
        place = draw.randrange(3)
        hostile = draw.choice([HOSTILE, HOSTILE_FLOATS, HOSTILE_TEXTS])
        kind = {id(HOSTILE): int, id(HOSTILE_FLOATS): float, id(HOSTILE_TEXTS): str}[id(hostile)]
        columns[place] = [kind(value) for value in columns[place]]
        columns[place][draw.randrange(len(rows))] = draw.choice(hostile)
    names = list(COLUMNS)
    if draw.random() < 0.1:
        names[draw.randrange(3)] = draw.choice(["", "x", *COLUMNS])
    pq.write_table(pa.table([pa.array(column) for column in columns], names=names), path)
    if draw.random() < 0.4:
        content = bytearray(path.read_bytes())
        for _ in range(draw.randint(1, 4)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(content[: draw.choice([len(content), draw.randrange(len(content))])])


def parquet_found(path: Path) -> list[Row]:
    table = pq.ParquetFile(path).read()
    return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))
