"""Blocks counted while conversations are read, against the same conversations in memory."""

import json
from pathlib import Path

import numpy as np
import pytest

from workloads import read_trace
from workloads.describe import describe
from workloads.errors import InputError
from workloads.read import read_counted
from workloads.reuse import Counter, reuse_of
from workloads.schema import Trace


def request(t: float, prompt: int, ids: list[int], **more: object) -> dict[str, object]:
    return {"t": t, "type": "n", "in": prompt, "out": 5, "hash_ids": ids, "api_time": 1.0, **more}


def conversation(*requests: dict[str, object], scope: str = "local") -> dict[str, object]:
    return {"id": "c", "block_size": 10, "hash_id_scope": scope, "requests": list(requests)}


def test_by_hand() -> None:
    """Blocks of 10. Line 0: [1 2] of 25 tokens, then [1 2 3 4] of 40. Line 1, a sub-agent:
    [1 2 9] of 30. In the order 0, 2, 1: row 2 finds 1 and 2 of anybody's and none of its own
    line's; row 1 finds 1 and 2. Row 0's half block has no id: five ids and that one are unique."""
    counter = Counter(10)
    ids = [np.array(one) for one in ([1, 2], [1, 2, 3, 4], [1, 2, 9])]
    counter.add([25, 40, 30], ids, [0, 0, 1], [0, 2, 1])
    found = counter.reuse(np.array([0, 2, 1]))
    assert found.blocks.tolist() == [3, 3, 4]
    assert found.seen.tolist() == [0, 2, 2]
    assert found.full.tolist() == [2, 3, 4]
    assert found.reused is not None
    assert found.reused.tolist() == [0, 0, 2]
    assert found.unique_blocks == 6


@pytest.mark.parametrize("factor", [1, 10**9])
def test_large_ids_count_as_small_ones(factor: int) -> None:
    counter = Counter(1)
    counter.add([3, 4], [np.array([5, 6, 7]) * factor, np.array([5, 6, 9, 7]) * factor], [0, 0],
                [0, 1])  # fmt: skip
    found = counter.reuse(np.arange(2))
    assert found.seen.tolist() == [0, 2]
    assert found.unique_blocks == 4


def test_the_shipped_conversations() -> None:
    """As two other functions find them in the whole trace, one by one."""
    whole = read_trace("coding-agents")
    counted, found = read_counted("coding-agents")
    assert isinstance(counted, Trace)
    assert counted.prefix is None
    expected = reuse_of(whole)
    assert expected is not None
    assert found is not None
    for name in ("blocks", "seen", "full", "reused"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert found.unique_blocks == expected.unique_blocks
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(counted, name).tolist() == getattr(whole, name).tolist(), name
    assert describe(counted, found) == describe(whole)


def test_ids_known_everywhere_are_kept(tmp_path: Path) -> None:
    """[1 2] in one conversation, [1 2 3] in another that means the same by them."""
    talks = [
        conversation(request(0, 20, [1, 2]), scope="global"),
        conversation(request(5, 30, [1, 2, 3]), scope="global"),
    ]
    (tmp_path / "talks.jsonl").write_text("".join(json.dumps(talk) + "\n" for talk in talks))
    trace, found = read_counted(tmp_path / "talks.jsonl")
    assert isinstance(trace, Trace)
    assert trace.prefix is not None
    assert found is not None
    assert found.seen.tolist() == [0, 2]
    assert found.unique_blocks == 3


@pytest.mark.parametrize("many", [False, True])
def test_a_conversation_over_many_lines(tmp_path: Path, many: bool) -> None:
    """As people print JSON, one conversation or an array of them."""
    talk = conversation(request(0, 20, [1, 2]), request(9, 40, [1, 2, 3, 4]))
    (tmp_path / "talk.json").write_text(json.dumps([talk, talk] if many else talk, indent=2))
    trace, found = read_counted(tmp_path / "talk.json")
    assert len(trace) == (4 if many else 2)
    assert found is not None
    assert found.seen.tolist() == ([0, 0, 2, 2] if many else [0, 2])
    assert read_trace(tmp_path / "talk.json").turns is not None


def test_tools_and_system_prompt_in_common(tmp_path: Path) -> None:
    """Blocks of 10; tools and system prompt take 25 tokens, two full blocks, in a and b, and 15 in
    c. With a first: b finds 2 of its 3 blocks, its sub-agent the same two; c finds nothing, but its
    own second turn finds all of the first, whose ids are not a's though they are the same numbers.
    """

    def talk(system: int, *requests: dict[str, object]) -> dict[str, object]:
        return conversation(*requests) | {"tool_tokens": 10, "system_tokens": system}

    nested = {"type": "subagent", "t": 6, "requests": [request(0, 30, [1, 2, 8])]}
    talks = [
        talk(15, request(0, 30, [1, 2, 3])),
        talk(15, request(5, 30, [1, 2, 4]), nested),
        talk(5, request(10, 30, [1, 2, 3]), request(19, 40, [1, 2, 3, 4])),
    ]
    (tmp_path / "talks.jsonl").write_text("".join(json.dumps(one) + "\n" for one in talks))
    seen = {}
    for scope in ("recorded", "system"):
        _, found = read_counted(tmp_path / "talks.jsonl", prefix_scope=scope)  # type: ignore[arg-type]
        assert found is not None
        seen[scope] = found.seen.tolist()
    assert seen == {"recorded": [0, 0, 2, 0, 3], "system": [0, 2, 2, 0, 3]}
    whole = read_trace(tmp_path / "talks.jsonl", prefix_scope="system").prefix
    assert whole is not None
    assert len(set(whole.ids.tolist())) == 3 + 1 + 1 + 4


def test_a_scope_is_of_conversations(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no conversations"):
        read_trace("azure-2023-code", prefix_scope="system")
    (tmp_path / "talk.jsonl").write_text('{"requests": 5, "block_size": 10}\n')
    with pytest.raises(InputError, match="requests: "):
        read_trace(tmp_path / "talk.jsonl", prefix_scope="system")
