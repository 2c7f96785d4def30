"""Each format as its publisher writes it, under file names that say nothing."""

import gzip
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workloads import InputError, Trace, read_lengths, read_trace

Put = Callable[[str | bytes], Path]

AZURE_2023 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:17:03.9799600,4808,10\r\n"
    "2023-11-16 18:17:04.0319601,3180,8\r\n"
    "2023-11-16 18:17:05.9799600,110,27"
)
AZURE_2024 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-10 00:00:00.009930+00:00,2162,5\n"
    "2024-05-10 00:00:01+00:00,2399,6\n"
    "2024-05-10 02:00:02.009930+02:00,76,15\n"
)
BURSTGPT_1 = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45,ChatGPT,1087,0,1087,Conversation log\n"
    "118,GPT-4,0,0,0,API log\n"
    "120,GPT-4,417,276,693,Conversation log\n"
)
BURSTGPT_3 = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,,1.5,ChatGPT,472,18,490,API log\n"
    "120.5,7,2.5,GPT-4,417,276,693,Conversation log\n"
)
MOONCAKE = [
    {"timestamp": 100, "input_length": 1024, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 100, "input_length": 1025, "output_length": 6, "hash_ids": [0, 1, 2]},
    {"timestamp": 3101, "input_length": 1, "output_length": 7, "hash_ids": [3]},
]
BAILIAN = [
    {
        "chat_id": 159,
        "parent_chat_id": -1,
        "timestamp": 61.114,
        "input_length": 33,
        "output_length": 252,
        "type": "text",
        "turn": 1,
        "hash_ids": [9, 8, 7],
    },
    {
        "chat_id": 160,
        "parent_chat_id": 159,
        "timestamp": 62.114,
        "input_length": 16,
        "output_length": 2,
        "type": "text",
        "turn": 2,
        "hash_ids": [9],
    },
]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "file"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def columns(trace: Trace) -> tuple[list[float], list[int], list[int]]:
    return (
        trace.arrival_s.tolist(),
        trace.prompt_tokens.tolist(),
        trace.output_tokens.tolist(),
    )


def test_azure_2023(put: Put) -> None:
    trace = read_trace(put(AZURE_2023))
    assert columns(trace) == ([0.0, 0.0520001, 2.0], [4808, 3180, 110], [10, 8, 27])


def test_azure_2024(put: Put) -> None:
    assert columns(read_trace(put(AZURE_2024))) == (
        [0.0, 0.99007, 2.0],
        [2162, 2399, 76],
        [5, 6, 15],
    )


@pytest.mark.parametrize("content", [BURSTGPT_1, BURSTGPT_3])
def test_burstgpt_by_column_name(put: Put, content: str) -> None:
    _, prompt, output = columns(read_trace(put(content)))
    assert (prompt, output) == ([472, 417], [18, 276])


def test_burstgpt_failures_are_counted(put: Put) -> None:
    trace = read_trace(put(BURSTGPT_1))
    assert trace.arrival_s.tolist() == [0.0, 115.0]
    assert trace.provenance.rows_read == 4
    assert trace.provenance.dropped == {
        "failed request: no prompt tokens": 1,
        "zero output tokens": 1,
    }


def test_mooncake(put: Put) -> None:
    trace = read_trace(put(lines(MOONCAKE)))
    assert columns(trace) == ([0.0, 0.0, 3.001], [1024, 1025, 1], [5, 6, 7])
    assert trace.prefix is not None
    assert trace.prefix.block_tokens == 512
    assert trace.prefix.offsets.tolist() == [0, 2, 5, 6]
    assert trace.prefix.ids.tolist() == [0, 1, 0, 1, 2, 3]


def test_mooncake_without_blocks(put: Put) -> None:
    rows = [{key: row[key] for key in row if key != "hash_ids"} for row in MOONCAKE]
    assert read_trace(put(lines(rows))).prefix is None


def test_block_size_is_replaced_when_asked(put: Put) -> None:
    row = {"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [4]}
    prefix = read_trace(put(lines([row])), block_tokens=1024).prefix
    assert prefix is not None
    assert prefix.block_tokens == 1024


def test_bailian_is_not_taken_for_mooncake(put: Put) -> None:
    trace = read_trace(put(lines(BAILIAN)))
    assert columns(trace) == ([0.0, 1.0], [33, 16], [252, 2])
    assert trace.prefix is not None
    assert trace.prefix.block_tokens == 16


def test_vllm(put: Put) -> None:
    rows: list[dict[str, object]] = [
        {"input_toks": 5, "output_toks": 6, "arrival_time_ns": 1_787_267_980_082_740_301},
        {"input_toks": 7, "output_toks": 8, "arrival_time_ns": 1_787_267_980_082_740_302},
    ]
    assert columns(read_trace(put(lines(rows)))) == ([0.0, 1e-9], [5, 7], [6, 8])


def test_vllm_in_seconds(put: Put) -> None:
    row = {"request_id": "a", "input_toks": 5, "output_toks": 6, "arrival_time": 1787267980.5}
    assert columns(read_trace(put(lines([row])))) == ([0.0], [5], [6])


@pytest.mark.parametrize(
    "content",
    [
        "arrival_s,prompt_tokens,output_tokens\n0.5,3,4\n1,5,6\n",
        "request_id,output_tokens,prompt_tokens,arrival_s\na,4,3,0.5\n\nb,6,5,1.0",
        '{"arrival_s": 0.5, "prompt_tokens": 3, "output_tokens": 4}\n\n'
        '{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 6, "request_id": "b"}',
    ],
)
def test_own_schema(put: Put, content: str) -> None:
    assert columns(read_trace(put(content))) == ([0.0, 0.5], [3, 5], [4, 6])


def test_parquet_with_narrow_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "prompt_tokens": pa.array([3, 5], pa.int32()),
            "output_tokens": pa.array([4, 6], pa.uint16()),
            "arrival_s": pa.array([0.5, 1.0], pa.float32()),
            "hash_ids": pa.array([[1], [2]], pa.list_(pa.int32())),
            "block_tokens": pa.array([16, 16], pa.int32()),
        }
    )
    pq.write_table(table, tmp_path / "file")
    trace = read_trace(tmp_path / "file")
    assert columns(trace) == ([0.0, 0.5], [3, 5], [4, 6])
    assert trace.prefix is not None
    assert trace.prefix.ids.tolist() == [1, 2]


def test_azure_as_parquet(tmp_path: Path) -> None:
    start = datetime(2024, 5, 10)
    table = pa.table(
        {
            "TIMESTAMP": [start, start + timedelta(microseconds=9930)],
            "ContextTokens": [1, 2],
            "GeneratedTokens": [3, 4],
        }
    )
    pq.write_table(table, tmp_path / "file")
    assert columns(read_trace(tmp_path / "file")) == ([0.0, 0.00993], [1, 2], [3, 4])


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize("content", [AZURE_2023, lines(MOONCAKE)])
def test_compressed(put: Put, codec: str, content: str) -> None:
    plain = columns(read_trace(put(content)))
    packed = pa.CompressedOutputStream(path := put(b""), codec)
    packed.write(content.encode())
    packed.close()
    assert columns(read_trace(path)) == plain


def test_compressed_parquet(tmp_path: Path) -> None:
    table = pa.table({"arrival_s": [0.0], "prompt_tokens": [1], "output_tokens": [2]})
    pq.write_table(table, tmp_path / "plain")
    (tmp_path / "file").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    assert columns(read_trace(tmp_path / "file")) == ([0.0], [1], [2])


@pytest.mark.parametrize("content", [AZURE_2023, lines(MOONCAKE)])
def test_byte_order_mark(put: Put, content: str) -> None:
    plain = columns(read_trace(put(content)))
    assert columns(read_trace(put(b"\xef\xbb\xbf" + content.encode()))) == plain


def test_out_of_order_rows_are_sorted_stably_and_noted(put: Put) -> None:
    trace = read_trace(
        put("arrival_s,prompt_tokens,output_tokens\n7,1,1\n9,2,1\n7,3,1\n5,4,1\n9,5,1\n")
    )
    assert columns(trace)[:2] == ([0.0, 2.0, 2.0, 4.0, 4.0], [4, 1, 3, 2, 5])
    assert trace.provenance.notes == ("sorted by arrival: 2 rows were out of order",)


def test_many_ties_keep_file_order(put: Put) -> None:
    # Long enough that an unstable sort would show.
    rows = "".join(f"{i % 2},{i + 1},1\n" for i in range(1000))
    trace = read_trace(put("arrival_s,prompt_tokens,output_tokens\n" + rows))
    assert trace.prompt_tokens.tolist() == [*range(1, 1000, 2), *range(2, 1001, 2)]


def test_sorting_takes_the_blocks_along(put: Put) -> None:
    late = {"timestamp": 50, "input_length": 600, "output_length": 1, "hash_ids": [7, 8]}
    prefix = read_trace(put(lines([*MOONCAKE, late]))).prefix
    assert prefix is not None
    assert prefix.ids.tolist() == [7, 8, 0, 1, 0, 1, 2, 3]
    assert prefix.offsets.tolist() == [0, 2, 4, 7, 8]


def test_zero_output_rows_are_dropped_before_the_clock_starts(put: Put) -> None:
    trace = read_trace(put("arrival_s,prompt_tokens,output_tokens\n0,9,0\n2,8,1\n3,7,1\n"))
    assert columns(trace) == ([0.0, 1.0], [8, 7], [1, 1])
    assert trace.provenance.dropped == {"zero output tokens": 1}
    assert trace.provenance.rows_read == 3


def test_lengths_only(put: Put) -> None:
    path = put("num_prefill_tokens,num_decode_tokens,pd_ratio\n5,6,0.83\n7,0,0\n")
    lengths = read_lengths(path)
    assert (lengths.prompt_tokens.tolist(), lengths.output_tokens.tolist()) == ([5], [6])
    assert lengths.provenance.dropped == {"zero output tokens": 1}
    with pytest.raises(InputError, match="no arrival times"):
        read_trace(path)


def test_format_can_be_named(put: Put) -> None:
    path = put(
        lines([{"chat_id": 1, "timestamp": 5000, "input_length": 1, "output_length": 1}] * 2)
    )
    assert read_trace(path, format="mooncake").arrival_s.tolist() == [0.0, 0.0]
    with pytest.raises(InputError, match=r"format azure needs the column 'TIMESTAMP', found"):
        read_trace(path, format="azure")
    with pytest.raises(InputError, match=r"unknown format 'azur', expected one of: kvtwin, azure"):
        read_trace(path, format="azur")


def test_arrays_are_read_only(put: Put) -> None:
    trace = read_trace(put(lines(MOONCAKE)))
    assert trace.prefix is not None
    for array in (
        trace.arrival_s,
        trace.prompt_tokens,
        trace.output_tokens,
        trace.prefix.offsets,
        trace.prefix.ids,
    ):
        assert not array.flags.writeable
        assert array.dtype in (np.float64, np.int64)


def test_long_lines(put: Put) -> None:
    row = {"timestamp": 0, "input_length": 512 * 300_000, "output_length": 1}
    path = put(lines([row | {"hash_ids": list(range(300_000))}]))
    assert read_trace(path).prompt_tokens.tolist() == [512 * 300_000]
