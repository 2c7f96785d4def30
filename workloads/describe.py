"""What is in a trace, in numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from workloads import turns as turn_lines
from workloads.read import Lengths
from workloads.reuse import Reuse, reuse_of
from workloads.schema import Ints, Provenance, Trace, Turns, total
from workloads.spool import forget, slices
from workloads.sums import pairwise_sum
from workloads.transform import mean_rate

DEFINITIONS = {
    "request_rate": "requests / span, in requests/s",
    "inter_arrival_cv": "population standard deviation of the gaps / their mean",
    "percentiles": "interpolated linearly between the two nearest values",
    "reused": "full blocks in the leading run of ids that the same line of requests has named "
    "before, where a sub-agent's line begins with none / all full blocks",
    "pause": "seconds between an answer and the request that waited for it",
    "repeated": "blocks an unlimited cache would hold on arrival / all blocks, in order of arrival",
}


@dataclass(frozen=True, slots=True)
class TokenStats:
    """One column of lengths, in tokens."""

    p50: float
    p90: float
    p99: float
    mean: float
    min: int
    max: int
    total: int


@dataclass(frozen=True, slots=True)
class PrefixStats:
    """How much of the prompts is shared: the bound of what prefix caching can save."""

    block_tokens: int
    blocks: int
    unique_blocks: int
    repeated: float


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Who waits for whom. A line is a session's own requests, or those of a sub-agent of it."""

    sessions: int
    lines: int
    turns_mean: float  # requests of a session
    turns_max: int
    pause_p50_s: float | None
    pause_p90_s: float | None
    pause_max_s: float | None
    full_blocks: int
    reused_blocks: int


@dataclass(frozen=True, slots=True)
class Description:
    """A trace's facts; see DEFINITIONS. None where a fact doesn't exist, such as a rate of ties."""

    name: str
    requests: int
    span_s: float | None
    request_rate: float | None
    inter_arrival_cv: float | None
    prompt_tokens: TokenStats
    output_tokens: TokenStats
    prefix: PrefixStats | None
    provenance: Provenance
    sessions: SessionStats | None = None


def describe(trace: Trace | Lengths, reuse: Reuse | None = None) -> Description:
    """The facts of a trace, or of lengths alone, which have no span, rate and prefixes.

    `reuse` is of a trace whose blocks were counted as it was read, and not kept.
    """
    prompt_tokens = _token_stats(trace.prompt_tokens)
    if isinstance(trace, Trace):
        forget(trace)
    lengths = Description(
        name=trace.name,
        requests=len(trace),
        span_s=None,
        request_rate=None,
        inter_arrival_cv=None,
        prompt_tokens=prompt_tokens,
        output_tokens=_token_stats(trace.output_tokens),
        prefix=None,
        provenance=trace.provenance,
    )
    if isinstance(trace, Lengths):
        return lengths
    forget(trace)
    reuse = reuse or reuse_of(trace)
    return replace(
        lengths,
        span_s=float(trace.arrival_s[-1]),
        request_rate=mean_rate(trace),
        inter_arrival_cv=_inter_arrival_cv(trace),
        prefix=None if reuse is None else _prefix_stats(reuse),
        sessions=None if trace.turns is None else _session_stats(trace.turns, reuse),
    )


def _inter_arrival_cv(trace: Trace) -> float | None:
    arrival_s = trace.arrival_s
    count = len(arrival_s) - 1
    if not count or arrival_s[0] == arrival_s[-1]:
        return None
    mean = pairwise_sum(count, _gaps(trace)) / count
    variance = pairwise_sum(count, ((gaps - mean) ** 2 for gaps in _gaps(trace))) / count
    return float(np.sqrt(variance) / mean)


def _gaps(trace: Trace) -> Iterator[NDArray[np.float64]]:
    """Between neighbours, some at a time."""
    for rows in slices(trace):
        last = min(rows.stop, len(trace) - 1)
        yield np.diff(trace.arrival_s[rows.start : last + 1])


def _token_stats(tokens: Ints) -> TokenStats:
    p50, p90, p99 = (float(value) for value in np.percentile(tokens, (50, 90, 99)))
    whole = total(tokens)
    return TokenStats(
        p50, p90, p99, whole / len(tokens), int(tokens.min()), int(tokens.max()), whole
    )


def _prefix_stats(reuse: Reuse) -> PrefixStats:
    blocks = int(reuse.blocks.sum())
    return PrefixStats(
        block_tokens=reuse.block_tokens,
        blocks=blocks,
        unique_blocks=reuse.unique_blocks,
        repeated=float(reuse.seen.sum() / blocks),
    )


def _session_stats(turns: Turns, reuse: Reuse | None) -> SessionStats:
    requests = np.bincount(turns.session)
    waits = np.diff(turns.offsets) > 0
    pauses = turns.delay_s[waits]
    ranks = tuple(float(one) for one in np.percentile(pauses, (50, 90, 100))) if len(pauses) else ()
    p50, p90, longest = ranks or (None, None, None)
    line = turn_lines.lines(turns)
    known = reuse is not None and reuse.reused is not None
    return SessionStats(
        sessions=len(requests),
        lines=int(line.max()) + 1,
        turns_mean=float(requests.mean()),
        turns_max=int(requests.max()),
        pause_p50_s=p50,
        pause_p90_s=p90,
        pause_max_s=longest,
        full_blocks=int(reuse.full.sum()) if known else 0,  # type: ignore[union-attr]
        reused_blocks=int(reuse.reused.sum()) if known else 0,  # type: ignore[union-attr]
    )
