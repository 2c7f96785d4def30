"""Sessions of one line: who waits for whom, and how long."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads import Trace, read_trace
from workloads.errors import InputError

SERVING_SIM = [
    {
        "session_id": "a",
        "arrival_time_ns": 2_000_000_000,
        "sub_requests": [
            {"input_toks": 10, "output_toks": 3, "tool_duration_ns": 4_000_000_000},
            {"input_toks": 20, "output_toks": 4, "tool_duration_ns": 0},
        ],
    },
    {"arrival_time_ns": 3_000_000_000, "input_toks": 30, "output_toks": 5},
]
MOONCAKE = [
    {
        "session_id": "x",
        "timestamp": 0,
        "input_length": 600,
        "output_length": 3,
        "hash_ids": [1, 2],
    },
    {"session_id": "y", "timestamp": 500, "input_length": 100, "output_length": 4, "hash_ids": [9]},
    {
        "session_id": "x",
        "delay": 2500,
        "input_length": 1100,
        "output_length": 5,
        "hash_ids": [1, 3, 4],
    },
]


def put(folder: Path, rows: list[dict[str, Any]]) -> Path:
    for row in rows[:1]:
        row.setdefault("delay", None) if "input_length" in row else None
    (folder / "log").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "log"


def waits(trace: Trace) -> list[list[int]]:
    assert trace.turns is not None
    return [part.tolist() for part in np.split(trace.turns.after, trace.turns.offsets[1:-1])]


def test_sub_requests_follow_tools(tmp_path: Path) -> None:
    """From 2 s: rows at 2, then 4 s after the answer; a flat request at 3 stands alone."""
    trace = read_trace(put(tmp_path, SERVING_SIM))
    assert trace.arrival_s.tolist() == [0, 1, 4]
    assert trace.prompt_tokens.tolist() == [10, 30, 20]
    assert waits(trace) == [[], [], [0]]
    assert trace.turns is not None
    assert trace.turns.delay_s.tolist() == [0, 0, 4]
    assert trace.turns.session.tolist() == [0, 1, 0]


def test_rows_of_a_session_follow_each_other(tmp_path: Path) -> None:
    trace = read_trace(put(tmp_path, MOONCAKE))
    assert trace.arrival_s.tolist() == [0, 0.5, 2.5]
    assert waits(trace) == [[], [], [0]]
    assert trace.turns is not None
    assert trace.turns.delay_s.tolist() == [0, 0, 2.5]
    assert trace.prefix is not None
    assert np.diff(trace.prefix.offsets).tolist() == [2, 1, 3]
    assert trace.prefix.ids[0] == trace.prefix.ids[3]


@pytest.mark.parametrize(
    ("rows", "change", "said"),
    [
        (SERVING_SIM, {"arrival_time_ns": None}, "line 1: arrival_time_ns is None"),
        (SERVING_SIM, {"sub_requests": 3}, "line 1: sub_requests is no list"),
        (SERVING_SIM, {"sub_requests": [{"input_toks": 1.5}]}, "sub_requests.0: input_toks is 1.5"),
        (MOONCAKE, {"output_length": True}, "line 1: output_length is True"),
        (MOONCAKE, {"hash_ids": [1, 2, 3]}, "line 1: hash_ids: expected 1 whole numbers"),
        (MOONCAKE, {"timestamp": -1}, "line 1: timestamp is -1"),
        (MOONCAKE, {"hash_ids": None}, "some requests have hash_ids"),
    ],
)
def test_faults(
    rows: list[dict[str, Any]], change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(put(tmp_path, [rows[0] | change, *rows[1:]]))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
