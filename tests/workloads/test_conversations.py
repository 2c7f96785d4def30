"""Recorded conversations: the published facts, and who waits for whom."""

import gzip
import json
import tarfile
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads import read_trace
from workloads.catalog import shipped
from workloads.describe import describe
from workloads.errors import InputError
from workloads.schema import Trace


def published() -> list[dict[str, Any]]:
    entry = shipped("coding-agents")
    assert entry is not None
    with gzip.open(entry.path, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_published_facts() -> None:
    """Tokens and requests as published; 62 conversations, 6 sub-agents."""
    trace = read_trace("coding-agents")
    assert len(trace) == trace.provenance.rows_read == 534
    assert int(trace.prompt_tokens.sum()) == 23_983_055
    assert int(trace.output_tokens.sum()) == 354_187
    assert trace.turns is not None
    assert int(trace.turns.session.max()) == 61


def test_published_reuse() -> None:
    """374,471 references to blocks, of which 310,928 (83.03 %) are in the leading run of ids that
    the same conversation has named before, where a sub-agent begins with none.

    Counted here from the trace as read: full blocks, per conversation and line of requests.
    """
    trace = read_trace("coding-agents")
    blocks, turns = trace.prefix, trace.turns
    assert blocks is not None
    assert turns is not None
    references = reused = 0
    seen: dict[tuple[int, int], set[int]] = {}
    line_of: dict[int, tuple[int, int]] = {}
    for row in range(len(trace)):
        session = int(turns.session[row])
        parents = turns.after[turns.offsets[row] : turns.offsets[row + 1]].tolist()
        # a line begins where the turn does: a conversation's own, or a sub-agent's
        previous = [one for one in parents if turns.turn[one] == turns.turn[row] - 1]
        line = line_of[previous[0]] if turns.turn[row] and previous else (session, row)
        line_of[row] = line
        full = int(trace.prompt_tokens[row]) // blocks.block_tokens
        ids = blocks.ids[blocks.offsets[row] : blocks.offsets[row + 1]].tolist()[:full]
        known = seen.setdefault(line, set())
        references += full
        reused += next((at for at, one in enumerate(ids) if one not in known), full)
        known.update(ids)
    assert references == 374_471
    assert reused == 310_928


def test_describe_says_the_published_facts() -> None:
    """What a user's own copy of the whole set is checked with: `kvtwin traces describe FOLDER`."""
    found = describe(read_trace("coding-agents"))
    assert found.sessions is not None
    assert found.prompt_tokens.total == 23_983_055
    assert found.output_tokens.total == 354_187
    assert found.sessions.sessions == 62
    assert found.sessions.lines == 62 + 6
    assert (found.sessions.full_blocks, found.sessions.reused_blocks) == (374_471, 310_928)
    assert f"{found.sessions.reused_blocks / found.sessions.full_blocks:.4f}" == "0.8303"


def test_ids_of_one_conversation_mean_nothing_in_another() -> None:
    trace = read_trace("coding-agents")
    assert trace.prefix is not None
    assert trace.turns is not None
    owner: dict[int, int] = {}
    for row in range(len(trace)):
        session = int(trace.turns.session[row])
        for one in trace.prefix.ids[trace.prefix.offsets[row] : trace.prefix.offsets[row + 1]]:
            assert owner.setdefault(int(one), session) == session


def call(t: float, prompt: int, output: int = 1, **more: Any) -> dict[str, Any]:
    return {"type": "n", "t": t, "in": prompt, "out": output, "hash_ids": [1] * (prompt // 64)} | (
        {"api_time": 1.0} | more
    )


def agent(t: float, *requests: dict[str, Any]) -> dict[str, Any]:
    return {"type": "subagent", "t": t, "requests": list(requests)}


def talk(*requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"block_size": 64, "hash_id_scope": "local", "requests": list(requests)} | more


def read(tmp_path: Path, *talks: dict[str, Any]) -> Trace:
    folder = tmp_path / "talks"
    folder.mkdir()
    for number, one in enumerate(talks):
        (folder / f"{number}.json").write_text(json.dumps(one, indent=1))
    return read_trace(folder)


def waits(trace: Trace) -> list[list[int]]:
    assert trace.turns is not None
    offsets = trace.turns.offsets.tolist()
    return [trace.turns.after[a:b].tolist() for a, b in pairwise(offsets)]


def test_who_waits_for_whom(tmp_path: Path) -> None:
    """Main: 0 to 1. A sub-agent at 2 asks at 2 and 4, ends at 5. Another at 3 ends at 30. Main asks
    again at 9, after the first has ended and before the second has: it joins one. At 40 it joins
    the other. By stamp: main 0, agents 2, 3, 4, main 9, main 40."""
    trace = read(
        tmp_path,
        talk(
            call(0, 64),
            agent(2, call(0, 10), call(2, 10)),
            agent(3, call(0, 10, api_time=27.0)),
            call(9, 128, think_time=8.0),
            call(40, 128, think_time=30.0),
        ),
    )
    assert trace.arrival_s.tolist() == [0, 2, 3, 4, 9, 40]
    assert waits(trace) == [[], [0], [0], [1], [0, 3], [4, 2]]
    assert trace.turns is not None
    # 2 - 1; 3 - 1; 4 - 3; 9 - max(1, 5); 40 - max(10, 30)
    assert trace.turns.delay_s.tolist() == [0, 1, 2, 1, 4, 10]
    assert trace.turns.turn.tolist() == [0, 0, 0, 1, 1, 2]


def test_a_nested_time_counted_from_the_conversations_beginning(tmp_path: Path) -> None:
    trace = read(tmp_path, talk(call(0, 64), agent(20, call(20, 10), call(23, 10))))
    assert trace.arrival_s.tolist() == [0, 20, 23]


def test_requests_without_output_are_dropped_and_their_followers_wait_on(tmp_path: Path) -> None:
    trace = read(tmp_path, talk(call(0, 64), call(3, 64, 0), call(7, 64)))
    assert trace.provenance.dropped == {"zero tokens": 1}
    assert waits(trace) == [[], [0]]


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "jsonl", "json"])
def test_archives_and_files(tmp_path: Path, kind: str) -> None:
    one, two = talk(call(0, 64), call(4, 128)), talk(call(0, 70))
    place = tmp_path / f"set.{kind}"
    texts = {"a.json": json.dumps(one), "b.json": json.dumps(two)}
    if kind == "zip":
        with zipfile.ZipFile(place, "w") as archive:
            for name, text in texts.items():
                archive.writestr(name, text)
    elif kind == "tar.gz":
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        with tarfile.open(place, "w:gz") as tar:
            for name in texts:
                tar.add(tmp_path / name, name)
    else:
        place.write_text("\n".join(texts.values()))
    trace = read_trace(place)
    assert trace.prompt_tokens.tolist() == [64, 70, 128]
    assert waits(trace) == [[], [], [0]]
    assert trace.prefix is not None
    assert np.diff(trace.prefix.offsets).tolist() == [1, 2, 2]  # a partial block has its own id


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "0.json: not JSON"),
        ("[" * 5000, "0.json: not JSON"),
        ('{"requests": []}', "0.json: block_size: Field required"),
        (json.dumps(talk()), "0.json: requests: List should have at least 1 item"),
        (json.dumps(talk(call(-1, 64))), "0.json: requests.0.t: Input should be greater"),
        (json.dumps(talk(call(0, 64, 1.5))), "0.json: requests.0.out: Input should be a valid int"),
        (json.dumps(talk(call(0, 640) | {"hash_ids": [1]})), "1 hash_ids for a prompt of 640"),
        (json.dumps(talk({"type": "x"})), "0.json: requests.0: Input tag 'x' found"),
        (json.dumps(talk(call(0, 64) | {"in": 2**60})), "0.json: requests.0.in: Input"),
        (json.dumps(talk(call(0, 64), block_size="64")), "0.json: block_size: Input should be"),
    ],
)
def test_a_fault_is_one_line(tmp_path: Path, content: str, said: str) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    (folder / "0.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read_trace(folder)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_conversations(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \.json file"):
        read_trace(tmp_path)
