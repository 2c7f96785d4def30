"""Sessions of one line each: a request waits for the one before it, and for a tool or a person.

LLMServingSim's sessions (`sub_requests`, flat requests among them) and Mooncake's agentic rows
(`session_id`, requests in order, `delay` before each).
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from workloads.errors import InputError
from workloads.readers.records import CHAIN_ROWS, NESTED_CHAIN
from workloads.schema import PrefixBlocks, Provenance, Trace, Turns

MOONCAKE_BLOCK = 512
_LARGEST = 2**53


class Call(NamedTuple):
    """A request of a chain."""

    session: int
    turn: int
    start_s: float  # stamped for the first of a chain; the earliest it can come for others
    prompt: int
    output: int
    pause_s: float  # after the answer before it
    ids: tuple[int, ...]


def read_chains(found: Iterable[tuple[str, Any]], name: str, label: str) -> Trace:
    """The sessions as one trace. `found` pairs a place for messages with a parsed line.

    Raises InputError naming line and field.
    """
    dropped = 0
    calls: list[Call] = []
    last: dict[Any, Call] = {}
    for place, row in found:
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected a JSON object")
        for call in _calls(row, place, last):
            if call.output and call.prompt:
                calls.append(call)
            else:
                dropped += 1
    if not calls:
        raise InputError(f"{label}: no usable request, expected sessions with output tokens")
    return _trace(calls, dropped, name, label)


def _calls(row: dict[str, Any], place: str, last: dict[Any, Call]) -> Iterator[Call]:
    if NESTED_CHAIN not in row and "session_id" not in row:
        start = _number(row, "arrival_time_ns", place) / 1e9
        yield _call(row, place, len(last), 0, start, 0.0, "input_toks", "output_toks")
        last[object()] = Call(0, 0, 0, 0, 0, 0, ())
        return
    if NESTED_CHAIN in row:
        inner = row[NESTED_CHAIN]
        if not isinstance(inner, list) or not all(isinstance(one, dict) for one in inner):
            raise InputError(f"{place}: {NESTED_CHAIN} is no list of objects")
        session, start, pause = len(last), _number(row, "arrival_time_ns", place) / 1e9, 0.0
        last[object()] = Call(session, 0, 0, 0, 0, 0, ())
        for turn, one in enumerate(inner):
            where = f"{place}: {NESTED_CHAIN}.{turn}"
            yield _call(one, where, session, turn, start, pause, "input_toks", "output_toks")
            pause = _number(one, "tool_duration_ns", where, 0) / 1e9
            start += pause
        return
    key = str(row["session_id"])
    before = last.get(key)
    stamp, pause = (_number(row, name, place, 0) / 1e3 for name in ("timestamp", "delay"))
    if before is None:
        start, session, turn, pause = stamp, len(last), 0, 0.0
    else:
        start, session, turn = before.start_s + pause, before.session, before.turn + 1
    call = _call(row, place, session, turn, start, pause, "input_length", "output_length")
    last[key] = call
    yield call


def _call(
    row: dict[str, Any],
    place: str,
    session: int,
    turn: int,
    start: float,
    pause: float,
    prompt_name: str,
    output_name: str,
) -> Call:
    prompt, output = _whole(row, prompt_name, place), _whole(row, output_name, place)
    ids = row.get("hash_ids")
    if ids is None:
        return Call(session, turn, start, prompt, output, pause, ())
    full = prompt // MOONCAKE_BLOCK
    whole = isinstance(ids, list) and all(type(one) is int and 0 <= one < _LARGEST for one in ids)
    if not whole or len(ids) not in (full, -(-prompt // MOONCAKE_BLOCK)):
        raise InputError(
            f"{place}: hash_ids: expected {full} whole numbers, one for each full block of "
            f"{MOONCAKE_BLOCK} of {prompt:,} tokens"
        )
    return Call(session, turn, start, prompt, output, pause, tuple(ids))


def _trace(calls: list[Call], dropped: int, name: str, label: str) -> Trace:
    order = sorted(range(len(calls)), key=lambda row: (calls[row].start_s, row))
    rows = [calls[row] for row in order]
    latest: dict[int, int] = {}
    after: list[int] = []
    offsets = [0]
    for row, call in enumerate(rows):
        if call.session in latest:
            after.append(latest[call.session])
        latest[call.session] = row
        offsets.append(len(after))
    waits = np.diff(offsets) > 0
    stamps = np.array([call.start_s for call in rows])
    return Trace(
        name=name,
        arrival_s=stamps - stamps[0],
        prompt_tokens=np.array([call.prompt for call in rows], dtype=np.int64),
        output_tokens=np.array([call.output for call in rows], dtype=np.int64),
        provenance=Provenance(
            label,
            len(rows) + dropped,
            {"zero tokens": dropped} if dropped else {},
            (f"{len(latest)} sessions; later turns follow answers",),
            f"sessions: has {NESTED_CHAIN}, or {', '.join(sorted(CHAIN_ROWS))}",
        ),
        prefix=_blocks(rows, label),
        turns=Turns(
            session=np.unique([call.session for call in rows], return_inverse=True)[1],
            turn=np.array([call.turn for call in rows]),
            offsets=np.array(offsets),
            after=np.array(after, dtype=np.int64),
            delay_s=np.where(waits, [call.pause_s for call in rows], 0.0),
        ),
    )


def _blocks(rows: list[Call], label: str) -> PrefixBlocks | None:
    """The published ids; a block that a prompt fills in part gets one that nobody else has."""
    if not any(call.ids for call in rows):
        return None
    if not all(call.ids or call.prompt < MOONCAKE_BLOCK for call in rows):
        raise InputError(f"{label}: some requests have hash_ids, expected all or none to")
    unused = 1 + max(max(call.ids, default=0) for call in rows)
    ids: list[int] = []
    offsets = [0]
    for call in rows:
        ids += call.ids
        if len(call.ids) * MOONCAKE_BLOCK < call.prompt:
            ids.append(unused)
            unused += 1
        offsets.append(len(ids))
    return PrefixBlocks(MOONCAKE_BLOCK, np.array(offsets), np.array(ids, dtype=np.int64))


def _whole(row: dict[str, Any], name: str, place: str) -> int:
    value = row.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise InputError(f"{place}: {name} is {value!r:.40}, expected a whole number >= 0")
    return value


def _number(row: dict[str, Any], name: str, place: str, missing: float | None = None) -> float:
    value = row.get(name)
    if value is None and missing is not None:
        return missing
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2**63:
        raise InputError(f"{place}: {name} is {value!r:.40}, expected a number >= 0")
    return float(value)
