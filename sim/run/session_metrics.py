"""What a conversation feels like: its turns, its whole time, and what was lost between turns.

A session's requests may overlap (sub-agents). It is active while any of them is asked and not
answered, idle while a person thinks or a tool runs.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import REFUSED, Column, Log
from sim.run.metrics import Metric
from workloads.schema import Ints, Trace, Turns, total

TURNS = (
    ("first", 0, 1),
    ("second", 1, 2),
    ("3 to 5", 2, 5),
    ("6 to 10", 5, 10),
    ("later", 10, None),
)
"""Turns are reported in these groups: label, from, up to; turns count from 0."""


def session_metrics(log: Log, trace: Trace, since_s: float = 0.0) -> list[Metric]:
    """Metrics of a trace with turns, from an instant on; none for any other."""
    if trace.turns is None:
        return []
    counted = ~(log.requests["arrival_s"] < since_s)
    return [
        *_tasks(log.requests, trace.turns, since_s, log.end_s),
        *_by_turn(log.requests, trace.turns, counted),
        *_between_turns(log.requests, trace, trace.turns, counted),
    ]


def _tasks(
    requests: Mapping[str, Column], turns: Turns, since_s: float, end_s: float
) -> list[Metric]:
    sessions = int(turns.session.max()) + 1
    counting = len(np.unique(turns.session[~(requests["arrival_s"] < since_s)]))
    asked, answered = requests["arrival_s"], requests["finish_s"]
    whole = np.ones(sessions, dtype=bool)
    np.logical_and.at(whole, turns.session, ~np.isnan(answered) & ~(asked < since_s))
    begun = np.full(sessions, np.inf)
    ended = np.full(sessions, -np.inf)
    known = ~np.isnan(asked)
    np.minimum.at(begun, turns.session[known], asked[known])
    np.maximum.at(ended, turns.session, np.nan_to_num(answered, nan=-np.inf))
    times = (ended - begun)[whole]
    left = np.where(requests["status"] == REFUSED, asked, answered)  # the refused leave at once
    left = np.where(np.isnan(left), np.fmax(asked, end_s), left)
    active = _active_s(turns.session, np.fmax(asked, since_s), np.fmax(left, since_s), known)
    closed = np.full(sessions, -np.inf)
    np.maximum.at(closed, turns.session[known], left[known])
    spans = np.maximum(closed, since_s) - np.maximum(begun, since_s)
    open_s = float(spans[np.isfinite(begun)].sum())
    rows = [
        Metric("sessions", "Sessions", "", "conversations with a request that counts", counting),
        Metric(
            "sessions_whole",
            "Sessions answered whole",
            "",
            "every request of it finished or truncated",
            int(whole.sum()),
        ),
    ]
    meaning = "last answer − first request, sessions answered whole"
    rows += [
        Metric(
            f"task_s_{short}",
            f"Task time {short}",
            "s",
            meaning,
            float(value) if whole.any() else None,
        )
        for short, value in _statistics(times).items()
    ]
    span = end_s - since_s or None
    return [
        *rows,
        Metric(
            "sessions_active_mean",
            "Sessions active",
            "",
            "session-seconds with a request in the engine ÷ end of the run",
            active / span if span else None,
        ),
        Metric(
            "sessions_idle_mean",
            "Sessions idle",
            "",
            "session-seconds between first request and last answer without one ÷ end of the run",
            (open_s - active) / span if span else None,
        ),
    ]


def _active_s(session: Ints, asked: Column, left: Column, known: NDArray[np.bool_]) -> float:
    """Seconds in which a session has a request in the engine, summed over sessions."""
    order = np.lexsort((asked[known], session[known]))
    active, upto, current = 0.0, 0.0, -1
    for one, start, end in zip(
        session[known][order].tolist(),
        asked[known][order].tolist(),
        left[known][order].tolist(),
        strict=True,
    ):
        if one != current:
            current, upto = one, start
        active += max(0.0, end - max(start, upto))
        upto = max(upto, end)
    return active


def _by_turn(
    requests: Mapping[str, Column], turns: Turns, counted: NDArray[np.bool_]
) -> list[Metric]:
    ttft = 1e3 * (requests["first_token_s"] - requests["arrival_s"])
    rows = []
    for label, start, end in TURNS:
        mine = (turns.turn >= start) & (turns.turn < (end if end is not None else np.inf)) & counted
        if not mine.any():
            continue
        name = label.replace(" ", "_")
        known = ttft[mine & ~np.isnan(ttft)]
        rows.append(
            Metric(
                f"ttft_ms_p50_turn_{name}",
                f"TTFT p50, turn: {label}",
                "ms",
                "end of the step that sampled the first token − arrival",
                float(np.percentile(known, 50)) if len(known) else None,
            )
        )
        asked = total(requests["prompt_tokens"][mine])
        rows.append(
            Metric(
                f"cached_share_turn_{name}",
                f"Prompt cached, turn: {label}",
                "%",
                "prompt tokens found in the cache ÷ prompt tokens",
                100 * int(requests["cached_tokens"][mine].sum()) / asked,
            )
        )
    return rows


def _between_turns(
    requests: Mapping[str, Column], trace: Trace, turns: Turns, counted: NDArray[np.bool_]
) -> list[Metric]:
    reusable = reusable_tokens(trace, turns)
    admitted = ~np.isnan(requests["first_scheduled_s"]) & counted
    lost = np.maximum(reusable - requests["cached_tokens"], 0)[admitted]
    return [
        Metric(
            "reusable_tokens",
            "Reusable",
            "tokens",
            "prompt tokens in full blocks that a request it waited for had too; admitted requests",
            int(reusable[admitted].sum()),
        ),
        Metric(
            "lost_between_turns_tokens",
            "Lost between turns",
            "tokens",
            "of the reusable ones, those not found in the cache: evicted, or never shared",
            int(lost.sum()),
        ),
    ]


def reusable_tokens(trace: Trace, turns: Turns) -> NDArray[np.int64]:
    """Prompt tokens (n,) in the leading blocks that a request has in common with its predecessor.

    Of several that it waited for, the one with most counts; the last token is always computed.
    """
    reusable = np.zeros(len(trace), dtype=np.int64)
    blocks = trace.prefix
    if blocks is None:
        return reusable
    for row in range(len(trace)):
        own = blocks.ids[blocks.offsets[row] : blocks.offsets[row + 1]]
        for parent in turns.after[turns.offsets[row] : turns.offsets[row + 1]].tolist():
            other = blocks.ids[blocks.offsets[parent] : blocks.offsets[parent + 1]]
            both = min(len(own), len(other))
            differs = np.flatnonzero(own[:both] != other[:both])
            common = int(differs[0]) if len(differs) else both
            tokens = min(common * blocks.block_tokens, int(trace.prompt_tokens[row]) - 1)
            reusable[row] = max(reusable[row], tokens)
    return reusable


def _statistics(values: Column) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(("mean", "p50", "p90", "p99"), np.nan)
    ranks = np.percentile(values, (50, 90, 99))
    return {"mean": values.mean(), "p50": ranks[0], "p90": ranks[1], "p99": ranks[2]}
