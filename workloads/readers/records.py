"""Records in JSON that is not one flat object a line: arrays, nested fields, whole documents.

A nested field is named by its path, `usage.prompt_tokens`. Documents are unpacked by what they
hold: a list, OTLP spans, a benchmark's requests, or a benchmark's columns.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from workloads.errors import InputError
from workloads.incoming import parse_json

SPANS = "resourceSpans"  # OpenTelemetry's OTLP/JSON
BENCH_COLUMNS = ("input_lens", "output_lens")  # vllm bench serve, sglang.bench_serving
CONVERSATION = frozenset({"requests", "block_size"})  # kv-cache-tester's
NESTED_CHAIN = "sub_requests"  # LLMServingSim's sessions
CHAIN_ROWS = frozenset({"session_id", "input_length", "output_length", "delay"})  # Mooncake's
_DEEPEST = 8


def flat(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """The same fields with the paths of nested ones as names; lists stay as they are."""
    fields: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and value and depth < _DEEPEST:
            fields |= flat(value, f"{prefix}{name}.", depth + 1)
        else:
            fields[f"{prefix}{name}"] = value
    return fields


def parsed(text: str, label: str) -> Any:
    """A whole JSON document. Raises InputError."""
    try:
        return parse_json(text.encode())
    except ValueError as error:
        raise InputError(f"{label}: {error}") from None


def is_document(row: Any, alone: bool, of_rows: Collection[frozenset[str]] = ()) -> bool:
    """Whether one object holds all the requests: in a list of objects, or in a benchmark's columns.

    A session holds its own, one of many a line. A row has lists of objects too (choices, messages,
    output): it is one where it has all fields of a set of `of_rows`, or isn't alone in its file.
    """
    if not isinstance(row, dict) or is_session(row):
        return False
    if isinstance(row.get(SPANS), list) or isinstance(row.get("benchmarks"), list):
        return True
    if set(BENCH_COLUMNS) <= set(row):
        return True
    fields = set(flat(row))
    if not alone or any(fields >= needed for needed in of_rows):
        return False
    lists = [value for value in row.values() if isinstance(value, list)]
    return any(one and isinstance(one[0], dict) for one in lists)


def is_session(fields: Iterable[str]) -> bool:
    """Whether an object of such fields is a conversation, or part of a chain of requests."""
    names = frozenset(fields)
    return names >= CONVERSATION or is_chain(names)


def is_chain(fields: Iterable[str]) -> bool:
    """Whether an object of such fields is a session of one line of requests, or one of these."""
    names = frozenset(fields)
    return NESTED_CHAIN in names or names >= CHAIN_ROWS


def holds_sessions(content: Any) -> bool:
    """Whether a whole document is one session, or a list of them."""
    first = content[0] if isinstance(content, list) and content else content
    return isinstance(first, dict) and is_session(first)


def unpacked(content: Any, label: str) -> Iterator[dict[str, Any]]:
    """The records of a document, flat. Raises InputError where it holds none."""
    rows = _rows(content)
    if rows is None:
        raise InputError(
            f"{label}: expected JSON Lines, or a JSON document that holds a list of requests"
        )
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{label}: record {number} is {str(row)[:40]!r}, expected an object")
        yield flat(row) if any(type(value) is dict for value in row.values()) else row


def _rows(content: Any) -> Any:
    if isinstance(content, list):
        return content
    if not isinstance(content, dict):
        return None
    if isinstance(content.get(SPANS), list):
        return _spans(content[SPANS])
    if all(isinstance(content.get(name), list) for name in BENCH_COLUMNS):
        return _transposed(content)
    if isinstance(content.get("benchmarks"), list):  # guidellm
        return _finished(content["benchmarks"])
    return next((value for value in content.values() if isinstance(value, list)), None)


def _spans(resources: list[Any]) -> Iterator[dict[str, Any]]:
    """Spans that say how many tokens they used, with their attributes as fields."""
    for resource in resources:
        for scope in _list(resource, "scopeSpans"):
            for span in _list(scope, "spans"):
                if isinstance(span, dict):
                    attributes = {
                        one.get("key", ""): next(iter(one.get("value", {}).values()), None)
                        for one in _list(span, "attributes")
                        if isinstance(one, dict) and isinstance(one.get("value"), dict)
                    }
                    numbers = {name: _whole(value) for name, value in attributes.items()}
                    if any(name.startswith("gen_ai.usage.") for name in numbers):
                        start = _whole(span.get("startTimeUnixNano"))
                        yield {"startTimeUnixNano": start, "attributes": numbers}


def _whole(value: Any) -> Any:
    """OTLP/JSON writes 64-bit integers as text."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _list(content: Any, name: str) -> list[Any]:
    found = content.get(name) if isinstance(content, dict) else None
    return found if isinstance(found, list) else []


def _finished(benchmarks: list[Any]) -> Iterator[Any]:
    for benchmark in benchmarks:
        requests = benchmark.get("requests") if isinstance(benchmark, dict) else None
        yield from _list(requests, "successful") if isinstance(requests, dict) else requests or []


def _transposed(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A benchmark's columns as rows; only those as long as the prompts' lengths."""
    rows = len(content[BENCH_COLUMNS[0]])
    columns = {
        name: value
        for name, value in content.items()
        if isinstance(value, list) and len(value) == rows
    }
    for row in range(rows):
        yield {name: column[row] for name, column in columns.items()}
