"""A trace replayed twice, as stamped and after its answers: what the client's waiting hides.

A server that is slower than the recorded one makes a client that waits for answers ask later, so
that the queue it would have caused never forms (coordinated omission). The same requests at their
stamps show it: those that both runs answered, and neither arrived in its warm-up.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reports.formats import counted, duration, number
from reports.language import tr
from reports.load import Run
from reports.request_times import request_latencies
from reports.table import Table

JUDGED = ("e2el", "ttft")
STATISTICS = ("mean", "p50", "p99")
LITTLE = 0.01
"""Of a mean latency: what is not worth a word."""


class Replays(NamedTuple):
    """Two runs of one policy over the same requests."""

    stamps: Run
    answers: Run


def replays(runs: Sequence[Run]) -> list[Replays]:
    """Each policy's two replays; empty unless every run is one of such a pair."""
    found: dict[str, dict[str | None, Run]] = {}
    for run in runs:
        found.setdefault(run.info.policy.spec, {})[run.info.replay] = run
    both = [Replays(pair["stamps"], pair["answers"]) for pair in found.values()
            if set(pair) == {"stamps", "answers"} and _alike(*pair.values())]  # fmt: skip
    return both if 2 * len(both) == len(runs) else []


def _alike(one: Run, other: Run) -> bool:
    """Whether they replay the same requests."""
    return all(
        np.array_equal(one.requests[name], other.requests[name])
        for name in ("request_id", "prompt_tokens", "output_tokens")
    )


def _shared(pair: Replays) -> NDArray[np.bool_]:
    """Of the requests (n,), those that both runs answered and count."""
    counts = []
    for run in pair:
        since_s = run.info.warm_up.end_s if run.info.warm_up else -np.inf
        answered = ~np.isnan(run.requests["finish_s"])
        counts.append(answered & (run.requests["arrival_s"] >= since_s))
    both: NDArray[np.bool_] = np.logical_and(*counts)
    return both


def _latencies(pair: Replays, name: str) -> list[dict[str, float | None]]:
    """Milliseconds by statistic of each run, over the requests that both share."""
    shared = _shared(pair)
    found: list[dict[str, float | None]] = []
    for run in pair:
        values = 1e3 * request_latencies(run.requests)[name][shared]
        if not len(values):
            found.append(dict.fromkeys(STATISTICS))
            continue
        p50, p99 = np.percentile(values, (50, 99))
        found.append({"mean": float(values.mean()), "p50": float(p50), "p99": float(p99)})
    return found


def named(runs: Sequence[Run]) -> list[Run]:
    """The runs; two replays of each policy by its name and how it was replayed."""
    words = {"stamps": tr("as stamped"), "answers": tr("after answers")}
    if not replays(runs):
        return list(runs)
    return [
        replace(run, label=f"{run.info.policy.spec}{tr(', ')}{words[str(run.info.replay)]}")
        for run in runs
    ]


def first_words(found: Sequence[Replays]) -> tuple[str, str, str, tuple[str, ...], None]:
    """A verdict's parts: tone, status, headline, details, and no best run."""
    said = [_sentence(pair) for pair in found]
    return "mixed", tr("as stamped, and after answers"), said[0], tuple(said[1:]), None


def _sentence(pair: Replays) -> str:
    stamps, answers = (found["mean"] for found in _latencies(pair, "e2el"))
    policy = pair.stamps.info.policy.spec
    if stamps is None or answers is None:
        return tr("{label}: no request was answered in both replays.", label=policy)
    both = tr(
        "{label}: a request takes {stamps} on average as stamped, {answers} where its client "
        "waits for answers, over the same {requests}: ",
        label=policy,
        requests=counted(int(_shared(pair).sum()), "request"),
        stamps=duration(stamps / 1000),
        answers=duration(answers / 1000),
    )
    hidden = stamps - answers
    if abs(hidden) < LITTLE * stamps:
        return both + tr("waiting hides nothing to speak of.")
    if hidden < 0:
        return both + tr("waiting hides nothing, it asks sooner than the record.")
    return both + tr(
        "waiting hides {hidden}, {share} % of it.",
        hidden=duration(hidden / 1000),
        share=f"{100 * hidden / stamps:.3g}",
    )


def hidden_table(found: Sequence[Replays]) -> Table:
    """Latencies of both replays, and their difference."""
    head = (tr("latency"), tr("policy"), tr("as stamped (ms)"), tr("after answers (ms)"),
            tr("hidden (ms)"), tr("hidden (%)"))  # fmt: skip
    rows = []
    for name, statistic in product(JUDGED, STATISTICS):
        for pair in found:
            stamps, answers = (one[statistic] for one in _latencies(pair, name))
            known = stamps is not None and answers is not None
            hidden = stamps - answers if known else None  # type: ignore[operator]
            share = 100 * hidden / stamps if hidden is not None and stamps else None
            metric = f"{name}_ms_{statistic}"
            label = next(one.label for one in pair.stamps.info.metrics if one.name == metric)
            rows.append(
                (
                    tr(label),
                    pair.stamps.info.policy.spec,
                    *(number(value, "ms") for value in (stamps, answers, hidden)),
                    number(share, "%"),
                )
            )
    return Table(head, tuple(rows))
