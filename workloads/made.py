"""Made workloads, named after what people run: chat, coding agents, retrieval, summarisation.

Prompts are given as prefix blocks of 16 tokens, so that caches see what is shared: a turn's prompt
holds the earlier turns and their answers, all sessions begin with one system prompt, and questions
about a document begin with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from workloads.arrivals import parse_arrivals, rate_note
from workloads.errors import InputError
from workloads.lengths import LengthDistribution, parse_length
from workloads.read import read_lengths
from workloads.schema import Floats, Ints, PrefixBlocks, Provenance, Trace, Turns
from workloads.transform import noted

BLOCK_TOKENS = 16
DOCUMENTS = 200
"""Of a retrieval workload; asked about by rank r with a chance of 1 / r (Zipf)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a session consists of. Lengths as `parse_length` takes them, in tokens."""

    system: int  # tokens that every session begins with
    turns: float  # mean of a geometric number, at least 1
    added: str  # by the user, or by tools, in each turn
    output: str
    pause_s: float  # mean of exponential think or tool times


# The agents' numbers are those of the shipped `coding-agents`, whose median pause is 9 s.
SHAPES = {
    "chat": Shape(400, 4, "lognormal:mean=120,cv=1.5", "lognormal:mean=220,cv=1", 15.0),
    "coding-agent": Shape(
        15_000, 8.6, "lognormal:mean=3370,cv=2.1", "lognormal:mean=663,cv=1.6", 13.0
    ),
}
WORKLOADS = (*SHAPES, "retrieval", "summarisation")


def make_workload(
    name: str, requests: int, request_rate: float, *, arrivals: str = "poisson", seed: int = 0
) -> Trace:
    """A workload of that name; the same arguments give the same trace.

    `requests` and `request_rate` count sessions where the workload has them. Raises InputError.
    """
    if requests < 1:
        raise InputError(f"requests is {requests}, expected a whole number >= 1")
    if seed < 0:
        raise InputError(f"seed is {seed}, expected a whole number >= 0")
    if not 0 < request_rate < np.inf:
        raise InputError(f"request_rate is {request_rate}, expected a finite number > 0")
    if name not in WORKLOADS:
        raise InputError(f"{name!r}: no such workload, expected one of: {', '.join(WORKLOADS)}")
    for_arrivals, for_content = np.random.default_rng(seed).spawn(2)
    starts = parse_arrivals(arrivals)(requests, request_rate, for_arrivals)
    said = f"made: {name}, {requests} at {request_rate:g}/s ({arrivals}), seed {seed}"
    trace = _drawn(name, starts, for_content, said)
    unlike = rate_note(arrivals, request_rate, starts)
    return trace if unlike is None else replace(trace, provenance=noted(trace, unlike))


def _drawn(name: str, starts: Floats, for_content: np.random.Generator, said: str) -> Trace:
    requests = len(starts)
    if name in SHAPES:
        return _sessions(SHAPES[name], starts, for_content, name, said)
    documents = read_lengths("arxiv-lengths")
    draw = for_content.integers(0, len(documents), DOCUMENTS if name == "retrieval" else requests)
    if name == "summarisation":
        prompts, outputs = documents.prompt_tokens[draw], documents.output_tokens[draw]
        return Trace(name, starts, prompts, outputs, Provenance(said, requests))
    return _retrieval(documents.prompt_tokens[draw], starts, for_content, said)


def _sessions(
    shape: Shape, starts: Floats, rng: np.random.Generator, name: str, said: str
) -> Trace:
    turns = rng.geometric(1 / shape.turns, len(starts))
    total = int(turns.sum())
    added = parse_length(shape.added)(total, rng)
    outputs = parse_length(shape.output)(total, rng)
    pauses = rng.exponential(shape.pause_s, total)
    session = np.repeat(np.arange(len(starts)), turns)
    begins = np.cumsum(turns) - turns
    turn = np.arange(total) - np.repeat(begins, turns)
    pauses[turn == 0] = 0.0
    # a prompt is all that was said before it, and what is added now
    said_before = np.cumsum(added + outputs) - (added + outputs)
    prompts = shape.system + said_before - np.repeat(said_before[begins], turns) + added
    thought = np.cumsum(pauses)
    stamps = np.repeat(starts, turns) + thought - np.repeat(thought[begins], turns)
    order = np.lexsort((turn, session, stamps))
    place = np.empty_like(order)
    place[order] = np.arange(total)
    follows = turn[order] > 0
    return Trace(
        name=name,
        arrival_s=stamps[order] - stamps[order[0]],
        prompt_tokens=prompts[order],
        output_tokens=outputs[order],
        provenance=Provenance(said, total, notes=(f"{len(starts)} sessions",)),
        prefix=_chains(prompts[order], shape.system, session[order]),
        turns=Turns(
            session=session[order],
            turn=turn[order],
            offsets=np.concatenate(([0], np.cumsum(follows))),
            after=place[order[follows] - 1],
            delay_s=pauses[order],
        ),
    )


def _chains(prompts: Ints, shared_tokens: int, owner: Ints) -> PrefixBlocks:
    """Ids where the first full blocks are everybody's and the others their owner's.

    A block that a prompt fills in part is nobody else's: the next turn fills it with other tokens.
    """
    shared = shared_tokens // BLOCK_TOKENS
    counts = -(-prompts // BLOCK_TOKENS)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    most = int(counts.max())
    # Agents' prompts are a hundred million blocks: as few columns of them as can be.
    ids = np.repeat(most + owner * most - offsets[:-1], counts)
    ids += np.arange(offsets[-1])
    theirs = np.minimum(counts, shared)
    within = np.arange(theirs.sum()) - np.repeat(np.cumsum(theirs) - theirs, theirs)
    ids[np.repeat(offsets[:-1], theirs) + within] = within
    partial = np.flatnonzero(prompts % BLOCK_TOKENS)
    ids[offsets[1:][partial] - 1] = most * (2 + int(owner.max())) + partial
    return PrefixBlocks(BLOCK_TOKENS, offsets, ids)


def _retrieval(documents: Ints, starts: Floats, rng: np.random.Generator, said: str) -> Trace:
    """Questions about documents: a prompt is the document, then the question."""
    chance = 1 / np.arange(1, len(documents) + 1)
    picked = rng.choice(len(documents), len(starts), p=chance / chance.sum())
    question: LengthDistribution = parse_length("lognormal:mean=60,cv=1")
    answer: Callable[..., Ints] = parse_length("lognormal:mean=180,cv=0.8")
    prompts = documents[picked] + question(len(starts), rng)
    counts = -(-prompts // BLOCK_TOKENS)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    row = np.repeat(np.arange(len(prompts)), counts)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    first = np.concatenate(([0], np.cumsum(documents // BLOCK_TOKENS)))
    in_document = within < (documents // BLOCK_TOKENS)[picked[row]]
    own = int(first[-1]) + np.arange(len(row))
    ids = np.where(in_document, first[picked[row]] + within, own)
    return Trace(
        "retrieval",
        starts,
        prompts,
        answer(len(starts), rng),
        Provenance(said, len(starts), notes=(f"{len(documents)} documents",)),
        PrefixBlocks(BLOCK_TOKENS, offsets, ids),
    )
