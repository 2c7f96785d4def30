"""Lines as servers write them: lists of objects beside the counts, failures that say nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from workloads import Trace, read_trace
from workloads.errors import InputError

T0 = 1_700_000_000
MESSAGE = {"role": "assistant", "content": "x"}


def completion(second: int, prompt: int) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": 5}
    choices = [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]
    return {"id": "c", "created": T0 + second, "choices": choices, "usage": usage}


def response(second: int, prompt: int) -> dict[str, Any]:
    usage = {"input_tokens": prompt, "output_tokens": 5}
    output = [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}]
    return {"id": "r", "created_at": T0 + second, "output": output, "usage": usage}


def observation(second: int, prompt: int) -> dict[str, Any]:
    usage = {"input": prompt, "output": 5}
    started = f"2026-01-02T03:04:0{second}.000Z"
    return {"startTime": started, "input": [MESSAGE], "usageDetails": usage}


def flat(second: int, prompt: int) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": 5}
    return {"created": T0 + second, "messages": [MESSAGE, MESSAGE], **counts}


def batch(second: int, prompt: int) -> dict[str, Any]:
    return {"custom_id": "b", "response": {"body": completion(second, prompt)}, "error": None}


ROWS = {
    "openai-completions": completion,
    "openai-responses": response,
    "langfuse": observation,
    "openai": flat,
    "openai-batch": batch,
}


def written(folder: Path, *rows: Any) -> Path:
    (file := folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def check(trace: Trace, name: str) -> None:
    assert trace.prompt_tokens.tolist() == [30, 40]
    assert trace.output_tokens.tolist() == [5, 5]
    assert trace.arrival_s.tolist() == [0, 2]
    assert trace.provenance.reader.startswith(f"{name}: ")


@pytest.mark.parametrize("name", ROWS)
def test_rows_hold_lists_of_objects(tmp_path: Path, name: str) -> None:
    row = ROWS[name]
    file = written(tmp_path, row(1, 30), row(3, 40))
    check(read_trace(file), name)
    check(read_trace(file, format=name), name)
    assert read_trace(written(tmp_path, row(1, 30))).prompt_tokens.tolist() == [30]


def test_columns_name_fields_of_such_rows(tmp_path: Path) -> None:
    columns = "arrival=at:s,prompt=usage.read,output=usage.wrote"
    rows = [
        {"at": 1 + 2 * i, "choices": [{"n": 1}], "usage": {"read": 30 + 10 * i, "wrote": 5}}
        for i in range(2)
    ]
    check(read_trace(written(tmp_path, *rows), columns=columns), "columns")
    assert len(read_trace(written(tmp_path, rows[0]), columns=columns)) == 1


FAILURES: tuple[dict[str, Any], ...] = (
    {"error": {"message": "overloaded", "code": 503}},
    {"custom_id": "b", "response": None, "error": {"code": "expired"}},
    {"created": None, "error": "x" * 5000},
)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("failure", FAILURES, ids=["bare", "batch", "long"])
def test_a_failure_that_says_nothing_is_dropped(
    tmp_path: Path, name: str, failure: dict[str, Any]
) -> None:
    row = ROWS[name]
    trace = read_trace(written(tmp_path, failure, row(1, 30), failure, row(3, 40)))
    check(trace, name)
    assert trace.provenance.dropped == {"failed request: no prompt tokens": 2}
    assert trace.provenance.rows_read == 4


def test_in_a_table_too(tmp_path: Path) -> None:
    """Blank cells say nothing as well."""
    (file := tmp_path / "log.csv").write_text(
        "id,startTime,prompt_tokens,completion_tokens\na,,,\n"
        "b,2026-01-02 03:04:01,30,5\nc, ,,\nd,2026-01-02 03:04:03,40,5\n"
    )
    trace = read_trace(file)
    check(trace, "litellm")
    assert trace.provenance.dropped == {"failed request: no prompt tokens": 2}


def test_counts_without_a_time_are_a_fault(tmp_path: Path) -> None:
    timeless = {"usage": {"prompt_tokens": 30, "completion_tokens": 5}}
    with pytest.raises(InputError, match="line 2: created is missing, expected a finite number"):
        read_trace(written(tmp_path, completion(1, 30), timeless))


@pytest.mark.parametrize("unit", ["s", "iso", "ns"])
def test_nothing_but_failures(tmp_path: Path, unit: str) -> None:
    file = written(tmp_path, *[{"at": None, "in": None, "out": None}] * 2)
    with pytest.raises(InputError, match="no usable request among 2 rows: 2 failed"):
        read_trace(file, columns=f"arrival=at:{unit},prompt=in,output=out")


@pytest.mark.parametrize("text", ["[]", "{}", "{}\n{}\n"])
def test_no_rows(tmp_path: Path, text: str) -> None:
    (file := tmp_path / "log.json").write_text(text)
    with pytest.raises(
        InputError, match=r"log\.json: has no rows with any field, expected at least one request"
    ):
        read_trace(file)


def test_a_count_beyond_64_bits(tmp_path: Path) -> None:
    (file := tmp_path / "log.csv").write_text(
        f"arrival_s,prompt_tokens,output_tokens\n0,{10**38},1\n"
    )
    with pytest.raises(InputError, match=r"line 2: prompt_tokens is '10+', .* below 2"):
        read_trace(file)
