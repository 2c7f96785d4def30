"""Recorded conversations of agents: one JSON object each, its requests in order, sub-agents nested.

The format of kv-cache-tester (callanjfox) and of the AgentX sets that follow it. Block ids mean
something inside their conversation only (`hash_id_scope` "local") and name full blocks.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from workloads.errors import InputError
from workloads.reuse import Counter, Reuse
from workloads.schema import Ints, PrefixBlocks, Provenance, Trace, Turns

Tokens = Annotated[int, Field(ge=0, le=2**53, strict=True)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False, strict=True)]


def _as_ids(value: Any) -> Ints:
    """A list of whole numbers as an array: as objects, millions of them would fill memory."""
    try:
        ids = np.array(value)
    except (ValueError, OverflowError):
        ids = np.array(None)
    if ids.ndim == 1 and not len(ids):
        return np.empty(0, np.int64)
    if not isinstance(value, list) or ids.ndim != 1 or ids.dtype != np.int64:
        raise ValueError("expected a list of whole numbers")
    if int(ids.min()) < 0 or int(ids.max()) > 2**53:
        raise ValueError("expected whole numbers from 0 to 2^53")
    return ids


Ids = Annotated[Any, BeforeValidator(_as_ids)]
_NO_IDS: Ints = np.empty(0, np.int64)


class Request(BaseModel):
    """A call of a model: `n` answered at once, `s` streamed."""

    type: Literal["n", "s"]
    t: Seconds  # since the conversation began, or since the sub-agent did
    prompt: Tokens = Field(alias="in")
    output: Tokens = Field(alias="out")
    hash_ids: Ids
    api_time: Seconds | None = None
    think_time: Seconds | None = None


class SubAgent(BaseModel):
    """Calls that run beside their parent's."""

    type: Literal["subagent"]
    t: Seconds
    duration_ms: Seconds | None = None
    requests: list[Request]


class Conversation(BaseModel):
    """One file of the set."""

    id: str = ""
    block_size: Annotated[int, Field(ge=1, le=2**20, strict=True)]
    hash_id_scope: Literal["local", "global"] = "local"
    requests: Annotated[
        list[Annotated[Request | SubAgent, Field(discriminator="type")]], Field(min_length=1)
    ]


@dataclass(slots=True)
class _Columns:
    """Rows as they are found, numbered from 0; sorted by stamp at the end."""

    arrival: list[float] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    session: list[int] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    after: list[tuple[int, ...]] = field(default_factory=list)
    delay: list[float] = field(default_factory=list)
    ids: list[Ints] = field(default_factory=list)
    dropped: int = 0


Found = Iterable[tuple[str, Any]]
"""What a message should call a conversation, and its parsed JSON."""


def read_conversations(found: Found, name: str, label: str) -> Trace:
    """The conversations as one trace whose rows follow each other's answers.

    All begin at 0 s. A request waits for the one before it in its line, and for the sub-agents
    that by the record had ended in between; its delay is what the record leaves between the last of
    those answers and itself. A sub-agent waits for its parent's latest request. Requests without
    output are dropped, who waited for them waits for what they waited for. Raises InputError naming
    file and field.
    """
    return _read(found, name, label, None)[0]


def count_conversations(
    find: Callable[[], Found], name: str, label: str
) -> tuple[Trace, Reuse | None]:
    """The same trace without its blocks, which are counted instead, one conversation at a time.

    Blocks that mean something everywhere (`hash_id_scope` "global") are kept in the trace.
    """
    try:
        return _read(find(), name, label, Counter())
    except _KnownEverywhere:
        return read_conversations(find(), name, label), None


class _KnownEverywhere(Exception):
    """Ids of this conversation may come again in others."""


def _read(
    found: Found, name: str, label: str, counter: Counter | None
) -> tuple[Trace, Reuse | None]:
    rows = _Columns()
    size, base = 0, 0
    for session, (place, content) in enumerate(found):
        talk = _checked(content, place)
        if size and talk.block_size != size:
            raise InputError(
                f"{place}: block_size is {talk.block_size}, expected {size} as in the others"
            )
        size = talk.block_size
        before, first = base, len(rows.arrival)
        local = talk.hash_id_scope == "local"
        for request in _requests(talk):
            _check_ids(request, size, place)
            last = int(request.hash_ids.max(initial=-1))
            base = max(base, (before if local else 0) + last + 1)
        if counter is None:
            _add(rows, talk, session, before if local else 0)
        elif local:
            _add(rows, talk, session, 0)
            counter.block_tokens = size
            _count(rows, first, counter)
        else:
            raise _KnownEverywhere
    if not rows.arrival:
        raise InputError(f"{label}: no usable request, expected conversations with output tokens")
    order = _order(rows, 0)
    blocks = None if counter else _blocks(rows, order, size, base)
    trace = _trace(rows, order, blocks, name, label)
    return trace, counter.reuse(order) if counter else None


def _checked(content: Any, place: str) -> Conversation:
    try:
        return Conversation.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"] if part not in ("n", "s", "subagent"))
        raise InputError(f"{place}: {where or 'content'}: {fault['msg']}") from None


def _requests(talk: Conversation) -> Iterator[Request]:
    for part in talk.requests:
        yield from part.requests if isinstance(part, SubAgent) else (part,)


def _check_ids(request: Request, size: int, place: str) -> None:
    full = request.prompt // size
    if len(request.hash_ids) not in (full, -(-request.prompt // size)):
        raise InputError(
            f"{place}: {len(request.hash_ids)} hash_ids for a prompt of {request.prompt:,} tokens, "
            f"expected {full}, one for each full block of {size}"
        )


def _add(rows: _Columns, talk: Conversation, session: int, base: int) -> None:
    line: tuple[int, ...] = ()  # what the parent's next request waits for
    running: list[tuple[float, tuple[int, ...]]] = []  # sub-agents by the record's end
    answered, turn = 0.0, 0
    main = [part for part in talk.requests if isinstance(part, Request)]
    ends = dict(zip(map(id, main), _ends(main), strict=True))
    for part in talk.requests:
        if isinstance(part, SubAgent):
            # some sets count a nested request's time from the conversation's beginning
            absolute = bool(part.requests) and part.requests[0].t >= part.t > 0
            start = 0.0 if absolute else part.t
            last, ended, steps = line, answered, _ends(part.requests)
            for number, (request, end) in enumerate(zip(part.requests, steps, strict=True)):
                at = start + request.t
                last = _put(rows, request, session, number, at, last, at - ended, base)
                ended = start + end
            if part.requests:
                running.append((ended, last))
            continue
        joined = [rows_of for end, rows_of in running if end <= part.t]
        latest = max([answered, *(end for end, _ in running if end <= part.t)])
        running = [(end, rows_of) for end, rows_of in running if end > part.t]
        waits = tuple(dict.fromkeys((*line, *(row for rows_of in joined for row in rows_of))))
        gap = part.t - latest
        if not joined and part.think_time is not None and turn:
            gap = part.think_time  # to the fraction, where `t` is in whole seconds
        line = _put(rows, part, session, turn, part.t, waits, gap, base)
        answered, turn = ends[id(part)], turn + 1


def _ends(line: list[Request]) -> list[float]:
    """When each was answered, by the record: its own duration, else what its follower says."""
    following = [
        after.t - after.think_time if after.think_time is not None else before.t
        for before, after in pairwise(line)
    ]
    return [
        request.t + request.api_time if request.api_time is not None else end
        for request, end in zip(line, [*following, line[-1].t if line else 0.0], strict=True)
    ]


def _put(
    rows: _Columns,
    request: Request,
    session: int,
    turn: int,
    at: float,
    waits: tuple[int, ...],
    gap: float,
    base: int,
) -> tuple[int, ...]:
    if not (request.prompt and request.output):
        rows.dropped += 1
        return waits
    rows.arrival.append(at)
    rows.prompt.append(request.prompt)
    rows.output.append(request.output)
    rows.session.append(session)
    rows.turn.append(turn)
    rows.after.append(waits)
    rows.delay.append(max(gap, 0.0) if waits else 0.0)
    rows.ids.append(request.hash_ids + base)
    return (len(rows.arrival) - 1,)


def _count(rows: _Columns, first: int, counter: Counter) -> None:
    """Count the blocks of the rows from `first` on, a conversation, and forget them."""
    lines: list[int] = []
    for row in range(first, len(rows.arrival)):
        turn = rows.turn[row]
        before = (one for one in rows.after[row] if turn and rows.turn[one] == turn - 1)
        own = next(before, None)
        lines.append(max(lines, default=-1) + 1 if own is None else lines[own - first])
    ids = rows.ids[first:]
    counter.add(rows.prompt[first:], ids, lines, _order(rows, first).tolist())
    rows.ids[first:] = [_NO_IDS] * len(ids)


def _blocks(rows: _Columns, order: Ints, size: int, unused: int) -> PrefixBlocks:
    """A partial last block without an id gets one that nobody else has."""
    parts: list[Ints] = []
    offsets = [0]
    for row in order.tolist():
        own = rows.ids[row]
        parts.append(own)
        offsets.append(offsets[-1] + len(own))
        if len(own) * size < rows.prompt[row]:
            parts.append(np.array([unused]))
            unused += 1
            offsets[-1] += 1
    return PrefixBlocks(size, np.array(offsets), np.concatenate(parts))


def _trace(
    rows: _Columns, order: Ints, blocks: PrefixBlocks | None, name: str, label: str
) -> Trace:
    """The rows in that order."""
    arrival = np.array(rows.arrival)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    after = [[int(place[one]) for one in rows.after[row]] for row in order.tolist()]
    stamps = arrival[order]
    dropped = {"zero tokens": rows.dropped} if rows.dropped else {}
    sessions = len(set(rows.session))
    return Trace(
        name=name,
        arrival_s=np.maximum.accumulate(stamps - stamps[0]),
        prompt_tokens=np.array(rows.prompt, dtype=np.int64)[order],
        output_tokens=np.array(rows.output, dtype=np.int64)[order],
        provenance=Provenance(
            label,
            len(rows.arrival) + rows.dropped,
            dropped,
            (f"{sessions} conversations; later turns follow answers",),
            "conversations: has requests, block_size",
        ),
        prefix=blocks,
        turns=Turns(
            session=np.array(rows.session, dtype=np.int64)[order],
            turn=np.array(rows.turn, dtype=np.int64)[order],
            offsets=np.cumsum([0, *map(len, after)]),
            after=np.array([one for some in after for one in some], dtype=np.int64),
            delay_s=np.array(rows.delay)[order],
        ),
    )


def _order(rows: _Columns, first: int) -> Ints:
    """The rows from `first` on, numbered from 0, by their stamps.

    Stamps are raised to the latest of those that a row waits for, so that it stands after them.
    """
    raised = rows.arrival[first:]
    for row, waits in enumerate(rows.after[first:]):
        if waits:
            raised[row] = max(raised[row], *(raised[one - first] for one in waits))
    return np.argsort(np.array(raised), kind="stable")
