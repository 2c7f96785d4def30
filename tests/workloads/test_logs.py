"""Logs as people have them: gateways, benchmarks, spans, other separators, columns of any name."""

import json
from pathlib import Path
from typing import Any

import pytest

from workloads import Trace, read_lengths, read_trace
from workloads.errors import InputError


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def attribute(key: str, value: Any) -> dict[str, Any]:
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": key, "value": {kind: str(value)}}


def span(start_ns: int, prompt: int | None, output: int = 0) -> dict[str, Any]:
    attributes = [attribute("gen_ai.operation.name", "chat")]
    if prompt is not None:
        attributes += [
            attribute("gen_ai.usage.input_tokens", prompt),
            attribute("gen_ai.usage.output_tokens", output),
        ]
    return {"name": "chat", "startTimeUnixNano": str(start_ns), "attributes": attributes}


T0 = 1_700_000_000
# Each says: 30 and 40 prompt tokens, 5 and 6 output tokens, 1.5 s apart.
SAME = {
    "litellm": "request_id,startTime,endTime,prompt_tokens,completion_tokens\n"
    "a,2026-01-02 03:04:05.5,2026-01-02 03:04:09,30,5\n"
    "b,2026-01-02 03:04:07.0,2026-01-02 03:04:11,40,6\n",
    "openai": lines(
        {"id": "x", "created": T0, "prompt_tokens": 30, "completion_tokens": 5},
        {"id": "y", "created": T0 + 1.5, "prompt_tokens": 40, "completion_tokens": 6},
    ),
    "openai-completions": lines(
        {"created": T0, "usage": {"prompt_tokens": 30, "completion_tokens": 5}},
        {"created": T0 + 1.5, "usage": {"prompt_tokens": 40, "completion_tokens": 6}},
    ),
    "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,30,5\n1.5,40,6\n",
    "langfuse": json.dumps(
        {
            "data": [
                {
                    "startTime": "2026-01-02T03:04:05.500Z",
                    "usageDetails": {"input": 30, "output": 5},
                },
                {
                    "startTime": "2026-01-02T03:04:07.000Z",
                    "usageDetails": {"input": 40, "output": 6},
                },
            ]
        }
    ),
    "opentelemetry": json.dumps(
        {
            "resourceSpans": [
                {
                    "scopeSpans": [
                        {
                            "spans": [
                                span(T0 * 10**9, 30, 5),
                                span(T0 * 10**9 + 7, None),  # a tool's
                                span(T0 * 10**9 + 1_500_000_000, 40, 6),
                            ]
                        }
                    ]
                }
            ]
        }
    ),
    "aiperf": lines(
        *(
            {
                "metadata": {"request_start_ns": start},
                "metrics": {
                    "input_sequence_length": {"value": prompt, "unit": "tokens"},
                    "output_sequence_length": {"value": output, "unit": "tokens"},
                },
            }
            for start, prompt, output in ((T0 * 10**9, 30, 5), (T0 * 10**9 + 1_500_000_000, 40, 6))
        )
    ),
    "guidellm": json.dumps(
        {
            "benchmarks": [
                {
                    "requests": {
                        "successful": [
                            {"start_time": T0, "prompt_tokens": 30, "output_tokens": 5},
                            {"start_time": T0 + 1.5, "prompt_tokens": 40, "output_tokens": 6},
                        ],
                        "errored": [{"start_time": T0, "prompt_tokens": 1, "output_tokens": 1}],
                    }
                }
            ]
        },
        indent=2,
    ),
    "vllm-bench": json.dumps(
        {
            "backend": "vllm",
            "input_lens": [30, 40],
            "output_lens": [5, 6],
            "start_times": [T0, T0 + 1.5],
            "ttfts": [0.1, 0.2],
            "percentiles": [1, 2, 3],
        }
    ),
}
OWN = "arrival_s,prompt_tokens,output_tokens\n0,30,5\n1.5,40,6\n"


def same(trace: Trace) -> None:
    assert trace.arrival_s.tolist() == [0.0, 1.5]
    assert trace.prompt_tokens.tolist() == [30, 40]
    assert trace.output_tokens.tolist() == [5, 6]


@pytest.mark.parametrize("name", SAME)
def test_documented_logs(name: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(SAME[name])
    trace = read_trace(tmp_path / "log")
    same(trace)
    assert trace.provenance.reader.split(":")[0] == name


@pytest.mark.parametrize(
    "text",
    [
        OWN.replace(",", ";"),
        OWN.replace(",", "\t"),
        OWN.replace(",", ", "),
        OWN.replace("30", "30.0").replace("6\n", "6.\n"),
        OWN.replace("30", " 30 ").replace("1.5", " 1.5"),
        json.dumps(
            [
                {"arrival_s": 0, "prompt_tokens": 30, "output_tokens": 5.0},
                {"arrival_s": 1.5, "prompt_tokens": 40.0, "output_tokens": 6},
            ],
            indent=1,
        ),
        lines(
            {"arrival_s": 0, "prompt_tokens": 30.0, "output_tokens": 5},
            {"arrival_s": 1.5, "prompt_tokens": 40, "output_tokens": 6},
        ),
    ],
)
def test_the_same_in_other_dress(text: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    same(read_trace(tmp_path / "log"))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("at;in;out\n10;30;5\n11.5;40;6\n", "arrival=at,prompt=in,output=out"),
        ("at,in,out\n10000,30,5\n11500,40,6\n", "arrival=at:ms,prompt=in,output=out"),
        ("at,in,out\n7000000,30,5\n8500000,40,6\n", "arrival=at:us,prompt=in,output=out"),
        ("at,in,out\n7,30,5\n1500000007,40,6\n", "arrival=at:ns,prompt=in,output=out"),
        (
            "startTime,prompt_tokens,completion_tokens\n2026-01-02 00:00:01+01:00,30,5\n"
            "2026-01-02 00:00:02.5+01:00,40,6\n",
            "arrival=startTime:iso,prompt=prompt_tokens,output=completion_tokens",
        ),
        (
            lines(
                {"t": 1, "a": {"b": {"in": 30}}, "o": 5}, {"t": 2.5, "a": {"b": {"in": 40}}, "o": 6}
            ),
            "arrival=t:s, prompt=a.b.in, output=o",
        ),
    ],
)
def test_named_columns(text: str, columns: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    same(read_trace(tmp_path / "log", columns=columns))


def test_named_prefix_blocks(tmp_path: Path) -> None:
    rows = lines(
        {"t": 0, "i": 30, "o": 5, "h": [1, 2]}, {"t": 1.5, "i": 40, "o": 6, "h": [1, 2, 3]}
    )
    (tmp_path / "log").write_text(rows)
    trace = read_trace(tmp_path / "log", columns="arrival=t,prompt=i,output=o,hash_ids=h:16")
    same(trace)
    assert trace.prefix is not None
    assert trace.prefix.ids.tolist() == [1, 2, 1, 2, 3]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("", "expected arrival=NAME:UNIT"),
        ("arrival=t,prompt=i", "lacks output"),
        ("arrival=t:h,prompt=i,output=o", "unit 'h', expected one of: iso, s"),
        ("arrival=t,arrival=t,prompt=i,output=o", "arrival is given twice"),
        ("arrival=t,prompt=i,output=nowhere", "names 'nowhere', found: 't', 'i', 'o'"),
        ("arrival=t,prompt=i,output=o,hash_ids=t", "the size of a block"),
        ("arrival=t,prompt=i,output=o,model=m", "'model=m'"),
    ],
)
def test_columns_that_say_nothing(columns: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("t,i,o\n0,1,1\n")
    with pytest.raises(InputError) as caught:
        read_trace(tmp_path / "log", columns=columns)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_file_says_how_to_name_its_columns(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("t,i,o\n0,1,1\n")
    with pytest.raises(InputError, match="reads any"):
        read_trace(tmp_path / "log")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SAME["openai-completions"].replace("40", '"x"'), "line 2: usage.prompt_tokens is 'x'"),
        (SAME["aiperf"].replace('"value": 6', '"value": null'), "line 2: metrics.output_sequence"),
        (SAME["guidellm"].replace("40", "4.5"), "record 2: prompt_tokens is 4.5"),
        (SAME["vllm-bench"].replace("[30, 40]", "[30, -40]"), "record 2: input_lens is -40"),
        (SAME["langfuse"].replace("03:04:07", "03:64:07"), "record 2: startTime is '2026"),
        ("[1, 2]", "record 1 is '1', expected an object"),
        ("[" * 100_000, "nested too deep"),
        ('{"a": ' * 9_000, "nested too deep"),
        ('{\n"a": 1}', "holds a list of requests"),
        ('[{"a": 1]', "not JSON"),
    ],
)
def test_a_fault_names_its_record(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(InputError) as caught:
        read_trace(tmp_path / "log")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


SPAN = {
    "startTimeUnixNano": "1700000000000000000",
    "attributes": [
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "30"}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "5"}},
    ],
}
OTLP = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}
LATER = json.loads(
    json.dumps(OTLP).replace("1700000000000", "1700000001500").replace('"30"', '"31"')
)
ODD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "spans, a document a line": ([OTLP, LATER], "opentelemetry"),
    "Responses API": (
        [
            {"id": "a", "created_at": at, "usage": {"input_tokens": prompt, "output_tokens": 5}}
            for at, prompt in ((10, 30), (11.5, 31))
        ],
        "openai-responses",
    ),
    "a batch's output": (
        [
            {"custom_id": "a", "response": {"body": {
                "created": at, "usage": {"prompt_tokens": prompt, "completion_tokens": 5}}}}
            for at, prompt in ((10, 30), (11.5, 31))
        ],
        "openai-batch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_people_bring(tmp_path: Path, name: str) -> None:
    rows, reader = ODD[name]
    (tmp_path / "log").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = read_trace(tmp_path / "log")
    assert trace.arrival_s.tolist() == [0, 1.5]
    assert trace.prompt_tokens.tolist() == [30, 31]
    assert trace.output_tokens.tolist() == [5, 5]
    assert trace.provenance.reader.startswith(f"{reader}:")


@pytest.mark.parametrize("wrap", ["lines", "array"])
def test_requests_that_failed_say_no_counts(tmp_path: Path, wrap: str) -> None:
    """A streamed answer without usage, first in the file and later; one count alone is a fault."""
    rows: list[dict[str, Any]] = [
        {"id": "a", "created": 10, "usage": None},
        {"id": "b", "created": 11, "usage": {"prompt_tokens": 30, "completion_tokens": 5}},
        {"id": "c", "created": 12},
    ]

    def put() -> Path:
        text = json.dumps(rows) if wrap == "array" else "".join(json.dumps(r) + "\n" for r in rows)
        (tmp_path / "log").write_text(text)
        return tmp_path / "log"

    trace = read_trace(put())
    assert trace.prompt_tokens.tolist() == [30]
    assert sum(trace.provenance.dropped.values()) == 2
    rows.append({"id": "d", "created": 13, "usage": {"prompt_tokens": 7}})
    with pytest.raises(InputError, match=r"usage\.completion_tokens is missing"):
        read_trace(put())


def test_a_failed_row_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        "startTime,prompt_tokens,completion_tokens\n"
        "2026-01-02 03:04:05,30,5\n2026-01-02 03:04:06,,\n2026-01-02 03:04:07, 31,5.0\n"
    )
    trace = read_trace(tmp_path / "log")
    assert trace.prompt_tokens.tolist() == [30, 31]
    assert sum(trace.provenance.dropped.values()) == 1


def test_a_benchmark_without_start_times_has_lengths(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(json.dumps({"input_lens": [30, 0, 31], "output_lens": [5, 0, 6]}))
    lengths = read_lengths(tmp_path / "log")
    assert lengths.prompt_tokens.tolist() == [30, 31]
    with pytest.raises(InputError, match="has lengths but no arrival times"):
        read_trace(tmp_path / "log")


def test_aiperf_turns_follow_answers(tmp_path: Path) -> None:
    """The second of one correlation id 2 s after the first began, whose answer took 500 ms."""
    rows = [
        {
            "metadata": {"request_start_ns": 10**18 + at * 10**9, "x_correlation_id": "s"},
            "metrics": {
                "input_sequence_length": {"value": 30, "unit": "tokens"},
                "output_sequence_length": {"value": 5, "unit": "tokens"},
                "request_latency": {"value": 500.0, "unit": "ms"},
            },
        }
        for at in (0, 2)
    ]
    (tmp_path / "log").write_text("".join(json.dumps(row) + "\n" for row in rows))
    turns = read_trace(tmp_path / "log").turns
    assert turns is not None
    assert turns.after.tolist() == [0]
    assert turns.delay_s.tolist() == [0, 1.5]


def test_utf_16_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n", "utf-16")
    with pytest.raises(InputError, match="is UTF-16 text, expected UTF-8"):
        read_trace(tmp_path / "log")
