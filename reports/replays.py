"""A trace replayed twice, as stamped and after its answers: what the client's waiting hides.

A server that is slower than the recorded one makes a client that waits for answers ask later, so
that the queue it would have caused never forms (coordinated omission). The same requests at their
stamps show it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reports.formats import duration, number
from reports.language import tr
from reports.load import Run
from reports.table import Table

JUDGED = tuple(
    f"{name}_ms_{statistic}" for name in ("e2el", "ttft") for statistic in ("mean", "p50", "p99")
)
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
            if set(pair) == {"stamps", "answers"}]  # fmt: skip
    return both if 2 * len(both) == len(runs) else []


def first_words(found: Sequence[Replays]) -> tuple[str, str, str, tuple[str, ...], None]:
    """A verdict's parts: tone, status, headline, details, and no best run."""
    said = [_sentence(pair) for pair in found]
    return "mixed", tr("as stamped, and after answers"), said[0], tuple(said[1:]), None


def _sentence(pair: Replays) -> str:
    stamps, answers = (run.value("e2el_ms_mean") for run in pair)
    policy = pair.stamps.info.policy.spec
    if stamps is None or answers is None:
        return tr("{label}: no request was answered in one of the replays.", label=policy)
    both = tr(
        "{label}: a request takes {stamps} on average as stamped, {answers} where its client "
        "waits for answers: ",
        label=policy,
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
    for name in JUDGED:
        for pair in found:
            stamps, answers = (run.value(name) for run in pair)
            known = stamps is not None and answers is not None
            hidden = stamps - answers if known else None  # type: ignore[operator]
            share = 100 * hidden / stamps if hidden is not None and stamps else None
            label = next(one.label for one in pair.stamps.info.metrics if one.name == name)
            rows.append(
                (
                    tr(label),
                    pair.stamps.info.policy.spec,
                    *(number(value, "ms") for value in (stamps, answers, hidden)),
                    number(share, "%"),
                )
            )
    return Table(head, tuple(rows))
