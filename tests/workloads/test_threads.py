"""Tables whose rows name their session, or the chat they go on from."""

import json
from pathlib import Path

import pytest

from workloads import read_trace
from workloads.errors import InputError
from workloads.schema import Trace

BURSTGPT = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,a,2.5,GPT-4,10,20,30,Conversation log\n"
    "6,b,1,GPT-4,11,21,32,Conversation log\n"
    "8,a,4,GPT-4,12,0,12,Conversation log\n"  # failed, and dropped
    "9,,1,ChatGPT,13,23,36,API log\n"
    "20,a,1,GPT-4,14,24,38,Conversation log\n"
    "20.5,,1,ChatGPT,15,25,40,API log\n"
    "6.5,b,9,GPT-4,16,26,42,Conversation log\n"  # out of order, and asked before the answer
)


def put(folder: Path, text: str) -> Path:
    (folder / "log").write_text(text)
    return folder / "log"


def facts(trace: Trace) -> list[tuple[int, int, int, list[int], float]]:
    """Of each row: prompt, session, turn, prompts of whom it waits for, and its pause."""
    assert trace.turns is not None
    t, prompts = trace.turns, trace.prompt_tokens.tolist()
    waits = [t.after[t.offsets[row] : t.offsets[row + 1]].tolist() for row in range(len(trace))]
    return [
        (
            prompts[row],
            int(t.session[row]),
            int(t.turn[row]),
            [prompts[one] for one in waits[row]],
            float(t.delay_s[row]),
        )
        for row in range(len(trace))
    ]


def test_burstgpt_sessions(tmp_path: Path) -> None:
    """Prompt 14 follows 10, answered at 7.5: 12.5 s. Prompt 16 came at 6.5, before 11 was answered
    at 7: no pause. Rows without a session are each their own."""
    trace = read_trace(put(tmp_path, BURSTGPT))
    assert trace.arrival_s.tolist() == [0, 1, 1.5, 4, 15, 15.5]
    assert facts(trace) == [
        (10, 0, 0, [], 0.0),
        (11, 1, 0, [], 0.0),
        (16, 1, 1, [11], 0.0),
        (13, 2, 0, [], 0.0),
        (14, 0, 1, [10], 12.5),
        (15, 3, 0, [], 0.0),
    ]
    assert "4 sessions by Session ID; later turns follow answers" in trace.provenance.notes


def bailian(chat: object, parent: object, at: float, prompt: int) -> dict[str, object]:
    return {
        "chat_id": chat, "parent_chat_id": parent, "timestamp": at, "input_length": prompt,
        "output_length": 5, "type": "text", "turn": 1, "hash_ids": list(range(-(-prompt // 16))),
    }  # fmt: skip


def test_bailian_chats(tmp_path: Path) -> None:
    """Chat 2 and 4 go on from 1, chat 3 from 2; chat 9's parent is in another file; 5 goes on from
    6, which comes later. The record has no time of an answer: gaps between stamps are pauses."""
    rows = [
        bailian(1, -1, 10.0, 10),
        bailian(2, 1, 15.0, 20),
        bailian(9, 8, 16.0, 30),
        bailian(3, 2, 21.0, 40),
        bailian(4, 1, 22.0, 50),
        bailian(5, 6, 23.0, 60),
        bailian(6, -1, 24.0, 70),
    ]
    trace = read_trace(put(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)))
    assert facts(trace) == [
        (10, 0, 0, [], 0.0),
        (20, 0, 1, [10], 5.0),
        (30, 1, 0, [], 0.0),
        (40, 0, 2, [20], 6.0),
        (50, 0, 1, [10], 12.0),
        (60, 2, 0, [], 0.0),
        (70, 3, 0, [], 0.0),
    ]
    assert trace.prefix is not None
    assert "answers take no time in the record, so pauses hold theirs" in trace.provenance.notes[0]


def test_ids_may_be_text_or_mixed(tmp_path: Path) -> None:
    for ids in (("x", "y"), (7, "y")):
        rows = [bailian(ids[0], None, 0, 10), bailian(ids[1], ids[0], 4.0, 10)]
        trace = read_trace(put(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)))
        assert facts(trace)[1] == (10, 0, 1, [10], 4.0)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "array", "parquet"])
def test_any_log_with_a_session(tmp_path: Path, kind: str) -> None:
    """`session=` and `elapsed=` of named columns: the second of chat 1 comes 1.5 s after an answer
    that took 2,500 ms."""
    rows = [
        {"at": 0, "chat": 1, "in": 10, "out": 5, "ms": 2500},
        {"at": 1, "chat": 2, "in": 11, "out": 5, "ms": 100},
        {"at": 4, "chat": 1, "in": 12, "out": 5, "ms": 100},
    ]
    file = tmp_path / "log"
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        file.write_text("\n".join(lines) + "\n")
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "array":
        file.write_text(json.dumps(rows))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), file)
    columns = "arrival=at:s,prompt=in,output=out,session=chat,elapsed=ms:ms"
    trace = read_trace(file, columns=columns)
    assert facts(trace) == [
        (10, 0, 0, [], 0.0),
        (11, 1, 0, [], 0.0),
        (12, 0, 1, [10], 1.5),
    ]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("6,b,soon,m,11,21,32,x", "row 1: Elapsed time is 'soon', expected a number >= 0"),
        ("6,b,-1,m,11,21,32,x", "row 1: Elapsed time is '-1', expected a number >= 0"),
        ("6,b,nan,m,11,21,32,x", "row 1: Elapsed time is 'nan', expected a number >= 0"),
    ],
)
def test_what_is_no_duration(tmp_path: Path, cells: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(put(tmp_path, BURSTGPT.split("\n")[0] + f"\n{cells}\n"))
    assert str(caught.value).endswith(said)


@pytest.mark.parametrize("chat", [True, [1], {}])
def test_what_names_no_chat(tmp_path: Path, chat: object) -> None:
    row = bailian(chat, -1, 0, 10)
    with pytest.raises(InputError, match=r"row 1: chat_id is .*, expected a name or a number"):
        read_trace(put(tmp_path, json.dumps(row) + "\n"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("arrival=a,prompt=b,output=c,elapsed=d", "elapsed is of sessions, expected session=NAME"),
        ("arrival=a,prompt=b,output=c,session=d,elapsed=e:iso", "unit 'iso', expected one of: s,"),
        ("arrival=a,prompt=b,output=c,session=", "expected arrival=NAME:UNIT"),
    ],
)
def test_named_columns_that_make_no_sense(tmp_path: Path, columns: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_trace(put(tmp_path, "a,b,c,d,e\n1,2,3,4,5\n"), columns=columns)
