"""Which policy fits best and what is wasted, in sentences made from the numbers alone.

Best fit: most requests finished in full; among equals the lowest mean end-to-end latency. Policies
with a stated limitation change the model's answers, so an exact one is named beside them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reports.load import Run
from reports.text import counted, gib, listed, number
from reports.theme import USES, WASTE

RULE = (
    "Best fit: most requests finished in full, then the lowest mean end-to-end latency. "
    "Waste: memory that holds no token and that no other request can have "
    "(reserved, internal, external)."
)


class Verdict(NamedTuple):
    """`tone` is ok, mixed (some requests were not served whole) or failed (none was)."""

    tone: str
    status: str
    headline: str
    details: tuple[str, ...]
    best: str | None


def verdict(runs: Sequence[Run]) -> Verdict:
    """The report's first words."""
    if all(_requests(run) == 0 for run in runs):
        return Verdict(
            "failed",
            "nothing to serve",
            "The trace holds no requests, so there is nothing to compare.",
            (),
            None,
        )
    best = min(runs, key=_rank)
    if not any(_served(run) for run in runs):
        return _none_served(runs, best)
    whole = all(_finished(run) == _requests(run) for run in runs)
    exact = [run for run in runs if run.info.policy.limitation is None]
    details = []
    if len(runs) > 1:
        details += [_why_best(runs, best)]
        if best.info.policy.limitation and exact:
            rival = min(exact, key=_rank)
            details += [
                f"{best.label} changes the model's answers ({best.info.policy.limitation}); the "
                f"best that does not is {rival.label}: {_outcome(rival)}."
            ]
    details += _waste(runs, best)
    return Verdict(
        "ok" if whole else "mixed",
        "all requests finished" if whole else "not every request was served in full",
        f"{best.label} fits best." if len(runs) > 1 else f"{best.label}: {_outcome(best)}.",
        tuple(details),
        best.label if len(runs) > 1 else None,
    )


def _rank(run: Run) -> tuple[float, float]:
    latency = run.value("e2el_ms_mean")
    return -_finished(run), float("inf") if latency is None else latency


def _requests(run: Run) -> int:
    return len(run.requests["status"])


def _finished(run: Run) -> int:
    return run.count("finished")


def _served(run: Run) -> int:
    return _finished(run) + run.count("truncated")


def _none_served(runs: Sequence[Run], any_run: Run) -> Verdict:
    refused = all(run.count("refused") == _requests(run) for run in runs)
    total = counted(_requests(any_run), "request")
    budget = gib(any_run.info.pool.capacity_bytes)
    if refused:
        text = f"Every one of {total} was refused: none can ever fit the KV budget of {budget}"
        text += f" and the longest context of {any_run.info.pool.max_len:,} tokens."
        return Verdict("failed", "all requests refused", text, (), None)
    text = f"None of {total} was served before the run ended."
    return Verdict("failed", "no request served", text, (), None)


def _outcome(run: Run) -> str:
    text = f"{_finished(run):,} of {counted(_requests(run), 'request')} finish in full"
    others = [
        f"{run.count(status):,} {words}"
        for status, words in (
            ("truncated", "cut short"),
            ("refused", "refused"),
            ("unfinished", "unfinished"),
        )
        if run.count(status)
    ]
    return f"{text}, {listed(others)}" if others else text


def _why_best(runs: Sequence[Run], best: Run) -> str:
    text = f"It serves the trace as follows: {_outcome(best)}"
    equals = [run for run in runs if _finished(run) == _finished(best)]
    mean = best.value("e2el_ms_mean")
    slowest = max((run.value("e2el_ms_mean") or 0 for run in equals), default=0)
    if mean and len(equals) > 1:
        text += f"; a request takes {number(mean / 1000, 's')} s on average"
        if slowest > mean:
            slow = next(run for run in equals if run.value("e2el_ms_mean") == slowest)
            text += f", against {number(slowest / 1000, 's')} s with {slow.label}"
    return text + "."


def _waste(runs: Sequence[Run], best: Run) -> list[str]:
    shares = {run.label: _wasted(run) for run in runs}
    own = shares[best.label]
    if own is None:
        return []
    live = best.value("kv_live_share_mean") or 0.0
    budget = gib(best.info.pool.capacity_bytes)
    text = f"Of its KV budget of {budget}, {live:.1f} % holds live tokens on average and "
    text += f"{own:.1f} % is wasted"
    worst = max(runs, key=lambda run: shares[run.label] or 0.0)
    most = shares[worst.label]
    if len(runs) == 1 or worst is best or most is None:
        return [f"{text}{_mostly(best)}."]
    lost = gib(most / 100 * worst.info.pool.capacity_bytes)
    return [
        f"{text}. {worst.label} wastes most: {most:.1f} % ({lost}){_mostly(worst)}.",
    ]


def _wasted(run: Run) -> float | None:
    shares = [run.value(f"kv_{use}_share_mean") for use in WASTE]
    known = [share for share in shares if share is not None]
    return sum(known) if known else None


def _mostly(run: Run) -> str:
    """Names the largest part of the waste, where there is any to speak of."""
    use = max(WASTE, key=lambda use: run.value(f"kv_{use}_share_mean") or 0.0)
    share = run.value(f"kv_{use}_share_mean") or 0.0
    return f", most of it {use} ({USES[use].meaning})" if share >= 0.1 else ""
