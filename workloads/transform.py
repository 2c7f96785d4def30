"""Pure functions from trace to trace. Each leaves a note in the provenance.

The result's first request is at 0.0 s, as a reader's is, and keeps its prefix blocks.
"""

import math
from dataclasses import replace

import numpy as np

from workloads import prefix as prefix_blocks
from workloads import turns as turn_lines
from workloads.errors import InputError
from workloads.schema import Ints, PrefixBlocks, Provenance, Trace


def mean_rate(trace: Trace) -> float | None:
    """Requests divided by the span from first to last arrival; None where the span is 0.

    Requests, not gaps: the definition under which published traces state their rates.
    """
    span_s = float(trace.arrival_s[-1])
    return len(trace) / span_s if span_s > 0 else None


def scale_rate(trace: Trace, request_rate: float) -> Trace:
    """Multiply the arrivals so that `mean_rate` becomes request_rate, in requests/s."""
    if not 0 < request_rate < math.inf:
        raise InputError(f"request_rate is {request_rate}, expected a finite number > 0")
    current = mean_rate(trace)
    if current is None:
        raise InputError(f"{trace.name}: all requests arrive at once, so there's no rate to scale")
    factor = current / request_rate
    return replace(
        trace,
        arrival_s=trace.arrival_s * factor,
        provenance=noted(
            trace, f"arrivals times {factor:.6g}: {current:.6g} to {request_rate:.6g} requests/s"
        ),
    )


def time_slice(trace: Trace, start_s: float, end_s: float) -> Trace:
    """The requests with start_s <= arrival < end_s."""
    if not 0 <= start_s < end_s:
        raise InputError(f"the slice is {start_s} to {end_s} s, expected 0 <= start < end")
    begin, end = np.searchsorted(trace.arrival_s, [start_s, end_s], side="left")
    if begin == end:
        last_s = trace.arrival_s[-1]
        raise InputError(
            f"{trace.name}: no request between {start_s} and {end_s} s;"
            f" arrivals go from 0 to {last_s:.6g} s"
        )
    note = f"sliced: {end - begin} of {len(trace)} requests, {start_s:g} s <= arrival < {end_s:g} s"
    return _picked(trace, np.arange(begin, end), note)


def first(trace: Trace, requests: int) -> Trace:
    """The first requests, or all where there are fewer."""
    if requests < 1:
        raise InputError(f"requests is {requests}, expected a whole number >= 1")
    if requests >= len(trace):
        return trace
    return _picked(trace, np.arange(requests), f"the first {requests} of {len(trace)} requests")


def sample(trace: Trace, samples: int) -> Trace:
    """Each request asks for so many outputs of its prompt, all of the trace's length.

    They become as many requests that arrive together, which is how vLLM V1 serves OpenAI's `n`
    (v1/engine/parallel_sampling.py). Their prefix ids are equal, the trace's own or one for each
    prompt, so that a policy that shares prefixes computes and holds its full blocks once.
    """
    if samples < 1:
        raise InputError(f"samples is {samples}, expected a whole number >= 1")
    if samples == 1:
        return trace
    if trace.turns is not None:
        raise InputError(
            f"{trace.name}: its turns follow one answer each, expected --samples 1 with sessions"
        )
    rows = np.arange(len(trace))
    blocks = trace.prefix
    if blocks is None:
        ids = np.arange(len(trace) + 1)
        blocks = PrefixBlocks(int(trace.prompt_tokens.max(initial=1)), ids, ids[:-1])
    note = f"{samples} samples of each prompt: {len(trace)} requests became {samples * len(trace)}"
    return _picked(replace(trace, prefix=blocks), np.repeat(rows, samples), note)


def cap(
    trace: Trace,
    *,
    max_prompt: int | None = None,
    max_output: int | None = None,
    max_total: int | None = None,
) -> Trace:
    """Shorten what is longer, in tokens. No request is dropped.

    A prompt loses its tail; under max_total it leaves room for one output token, and the output
    takes what the prompt leaves.
    """
    limits = {"max_prompt": (max_prompt, 1), "max_output": (max_output, 1)}
    for name, (limit, least) in (limits | {"max_total": (max_total, 2)}).items():
        if limit is not None and limit < least:
            raise InputError(f"{name} is {limit}, expected a whole number >= {least}")
    prompt_limits = [
        limit
        for limit in (max_prompt, max_total - 1 if max_total is not None else None)
        if limit is not None
    ]
    prompt, output, blocks = trace.prompt_tokens, trace.output_tokens, trace.prefix
    if prompt_limits:
        prompt = np.minimum(trace.prompt_tokens, min(prompt_limits))
        if blocks is not None:
            blocks = prefix_blocks.cut(blocks, trace.prompt_tokens, min(prompt_limits))
    if max_output is not None:
        output = np.minimum(output, max_output)
    if max_total is not None:
        output = np.minimum(output, max_total - prompt)
    prompts = int((prompt < trace.prompt_tokens).sum())
    outputs = int((output < trace.output_tokens).sum())
    given = {"max_prompt": max_prompt, "max_output": max_output, "max_total": max_total}
    asked = ", ".join(f"{name} {limit}" for name, limit in given.items() if limit is not None)
    note = f"capped ({asked or 'no limit'}): {prompts} prompts and {outputs} outputs shortened"
    return replace(
        trace,
        prompt_tokens=prompt,
        output_tokens=output,
        prefix=blocks,
        provenance=noted(trace, note),
    )


def thin(trace: Trace, share: float, seed: int = 0) -> Trace:
    """Each request, or each whole session, is kept with probability `share`."""
    if not 0 < share <= 1:
        raise InputError(f"thin is {share}, expected more than 0 and at most 1")
    _check_seed(seed)
    draw = np.random.default_rng(seed).random
    if trace.turns is None:
        kept = draw(len(trace)) < share
    else:
        kept = (draw(int(trace.turns.session.max()) + 1) < share)[trace.turns.session]
    rows = np.flatnonzero(kept)
    if not len(rows):
        raise InputError(f"{trace.name}: thinned to {share:g}, no request is left")
    return _picked(trace, rows, f"thinned to {share:g} (seed {seed}): {len(rows)} of {len(trace)}")


def snapshot(trace: Trace, seed: int = 0) -> Trace:
    """Every session as it is found at a moment drawn from its recorded life, all moments at 0 s.

    Requests stamped before are gone, and who waited for them alone comes at its stamp. So a run
    begins among conversations of all ages, where a trace whose sessions all begin at once begins
    with first turns alone. Raises InputError without sessions.
    """
    if trace.turns is None:
        raise InputError(f"{trace.name}: has no sessions, expected some for a snapshot")
    _check_seed(seed)
    session, stamps = trace.turns.session, trace.arrival_s
    sessions = int(session.max()) + 1
    begun, ended = np.full(sessions, np.inf), np.zeros(sessions)
    np.minimum.at(begun, session, stamps)
    np.maximum.at(ended, session, stamps)
    moment = begun + np.random.default_rng(seed).random(sessions) * (ended - begun)
    shifted = stamps - moment[session]
    rows = np.flatnonzero(shifted >= 0)
    rows = rows[np.argsort(shifted[rows], kind="stable")]
    note = f"a snapshot of each session (seed {seed}): {len(rows)} of {len(trace)} requests"
    return _picked(replace(trace, arrival_s=shifted), rows, note)


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"seed is {seed}, expected a whole number >= 0")


def repeat(trace: Trace, times: int) -> Trace:
    """The trace so many times in a row, a mean gap apart; prefix ids of each time are its own."""
    if times < 1:
        raise InputError(f"repeat is {times}, expected a whole number >= 1")
    gap_s = float(trace.arrival_s[-1]) / max(1, len(trace) - 1)
    period_s = float(trace.arrival_s[-1]) + gap_s
    whole = trace
    for number in range(1, times):
        whole = _joined(whole, replace(trace, arrival_s=trace.arrival_s + number * period_s))
    note = f"{times} times in a row, every {period_s:.6g} s"
    return replace(whole, provenance=noted(trace, note))


def merge(trace: Trace, other: Trace) -> Trace:
    """Both at once, from the same zero; prefix ids of the two mean different things."""
    note = f"merged with {other.name}: {len(trace)} and {len(other)} requests"
    return replace(_joined(trace, other), provenance=noted(trace, note))


def _joined(one: Trace, two: Trace) -> Trace:
    """Rows of both in order of arrival; of one instant, the first trace's come first."""
    if (one.prefix is None) != (two.prefix is None):
        without = two.name if two.prefix is None else one.name
        raise InputError(f"{without}: names no prefix blocks, expected both traces to or neither")
    arrival_s = np.concatenate([one.arrival_s, two.arrival_s])
    order = np.argsort(arrival_s, kind="stable")
    return replace(
        one,
        arrival_s=arrival_s[order],
        prompt_tokens=np.concatenate([one.prompt_tokens, two.prompt_tokens])[order],
        output_tokens=np.concatenate([one.output_tokens, two.output_tokens])[order],
        prefix=prefix_blocks.joined(one.prefix, two.prefix, order)
        if one.prefix and two.prefix
        else None,
        turns=turn_lines.joined(one, two, order),
    )


def _picked(trace: Trace, rows: Ints, note: str) -> Trace:
    arrival_s = trace.arrival_s[rows]
    return replace(
        trace,
        arrival_s=arrival_s - arrival_s[0],
        prompt_tokens=trace.prompt_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        prefix=None if trace.prefix is None else prefix_blocks.pick(trace.prefix, rows),
        turns=None if trace.turns is None else turn_lines.pick(trace.turns, rows),
        provenance=noted(trace, note),
    )


def noted(trace: Trace, note: str) -> Provenance:
    """The trace's provenance with one more note."""
    return replace(trace.provenance, notes=(*trace.provenance.notes, note))
