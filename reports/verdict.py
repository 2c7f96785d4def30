"""Which policy fits best and what is wasted, in sentences made from the numbers alone.

Best fit: most requests finished in full; among equals the lowest mean end-to-end latency. A policy
that changes the model's answers (its stated limitation) comes after all that don't, with a word on
how it would have done.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reports.formats import counted, gib, listed, number
from reports.load import Run
from reports.sections import one_trace
from reports.theme import USES, WASTE

CLOSE = 0.01
"""Mean latencies that differ by less are not worth a choice."""

RULE = (
    "Best fit: most requests finished in full, then the lowest mean end-to-end latency, among the "
    "policies that keep the model's answers as they are. "
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
    if unlike := _unlike(runs):
        outcomes = tuple(f"{run.label}: {_outcome(run)}." for run in runs)
        return Verdict("mixed", f"different {unlike}", UNLIKE[unlike], outcomes, None)
    best = min(runs, key=_rank)
    if not any(_served(run) for run in runs):
        return _none_served(runs)
    tone, status = "mixed", "not every request is served in full"
    if _finished(best) == _requests(best):
        tone, status = "ok", "every request is served in full"
    elif len(runs) > 1 and all(_finished(run) < _requests(run) for run in runs):
        status = "no policy serves every request in full"
    if len(runs) == 1:
        return Verdict(tone, status, f"{best.label}: {_outcome(best)}.", _waste(runs, best), None)
    details = (
        _why_best(runs, best),
        *_quicker_but_lossy(runs, best),
        *_unknown_limitations(runs),
        *_waste(runs, best),
    )
    return Verdict(tone, status, f"{best.label} fits best.", details, best.label)


UNLIKE = {
    "traces": "These runs replay different traces, so no winner is named.",
    "models": "These runs serve different models, so no winner is named.",
}
"""What makes counts and times no measure of a policy."""


def comparable(runs: Sequence[Run]) -> bool:
    """Whether the runs' numbers can be held against each other."""
    return _unlike(runs) is None


def _unlike(runs: Sequence[Run]) -> str | None:
    if not one_trace(runs):
        return "traces"
    return "models" if len({run.info.model.name for run in runs}) > 1 else None


def _rank(run: Run) -> tuple[bool, int, float]:
    """Smaller is better; an exact policy that serves nothing is no recommendation."""
    exact = run.info.policy.limitation is None
    return not (exact and _served(run)), *_merit(run)


def _merit(run: Run) -> tuple[int, float]:
    """Smaller is better."""
    latency = run.value("e2el_ms_mean")
    return -_finished(run), float("inf") if latency is None else latency


def _requests(run: Run) -> int:
    return len(run.requests["status"])


def _finished(run: Run) -> int:
    return run.count("finished")


def _served(run: Run) -> int:
    return _finished(run) + run.count("truncated")


def _none_served(runs: Sequence[Run]) -> Verdict:
    run = runs[0]
    total = counted(_requests(run), "request")
    if any(other.count("unfinished") for other in runs):
        text = f"None of {total} was served before the run ended."
        return Verdict("failed", "no request served", text, (), None)
    budgets = {gib(run.info.pool.capacity_bytes) for run in runs}
    longest = {f"{run.info.pool.max_len:,}" for run in runs}
    whose = "the policy's" if len(runs) == 1 else "any policy's"
    text = (
        f"Every one of {total} was refused: even the shortest prompt, of "
        f"{counted(int(run.requests['prompt_tokens'].min()), 'token')}, leaves no room for an "
        f"answer within {whose} own options, the KV budget of {' or '.join(sorted(budgets))} and "
        f"the longest context of {' or '.join(sorted(longest))} tokens."
    )
    return Verdict("failed", "all requests refused", text, (), None)


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
    text = f"With it, {_outcome(best)}"
    mean = best.value("e2el_ms_mean")
    if mean is None:
        return text + "."
    text += f"; a request takes {_seconds(best)} s on average"
    equals = [run for run in runs if _finished(run) == _finished(best)]
    slowest = max(equals, key=lambda run: run.value("e2el_ms_mean") or 0.0)
    if (slowest.value("e2el_ms_mean") or 0.0) > mean * (1 + CLOSE):
        text += f", against {_seconds(slowest)} s with {slowest.label}"
    exact = [run for run in equals if run.info.policy.limitation is None and run is not best]
    close = [run.label for run in exact if _close(run, mean)]
    return f"{text}. Within {CLOSE * 100:.0f} % of that: {listed(close)}." if close else f"{text}."


def _close(run: Run, mean: float) -> bool:
    own = run.value("e2el_ms_mean")
    return own is not None and abs(own - mean) <= CLOSE * mean


def _seconds(run: Run) -> str:
    return number((run.value("e2el_ms_mean") or 0.0) / 1000, "s")


def _quicker_but_lossy(runs: Sequence[Run], best: Run) -> tuple[str, ...]:
    rival = min(runs, key=_merit)
    limitation = rival.info.policy.limitation
    if rival is best or limitation is None:
        return ()
    return (
        f"{rival.label} would do better still ({_outcome(rival)}, {_seconds(rival)} s on average) "
        f"but changes the model's answers: {limitation}.",
    )


def _unknown_limitations(runs: Sequence[Run]) -> tuple[str, ...]:
    """A run folder may not say whether its policy is exact; then no ranking may imply it."""
    if all("limitation" in run.info.policy.model_fields_set for run in runs):
        return ()
    return (
        "This counts service, not answers: a policy that drops or compresses KV changes the "
        "model's answers.",
    )


def _waste(runs: Sequence[Run], best: Run) -> tuple[str, ...]:
    shares = {run.label: _wasted(run) for run in runs}
    own, live = shares[best.label], best.value("kv_live_share_mean")
    if own is None or live is None:
        return ()
    text = (
        f"Of its KV budget of {gib(best.info.pool.capacity_bytes)}, {live:.1f} % holds live tokens "
        f"on average and {own:.1f} % is wasted"
    )
    worst = max(runs, key=lambda run: shares[run.label] or 0.0)
    most = shares[worst.label] or 0.0
    if worst is best:
        return (f"{text}{_mostly(best)}.",)
    lost = gib(most / 100 * worst.info.pool.capacity_bytes)
    return (f"{text}. {worst.label} wastes most: {most:.1f} % ({lost}){_mostly(worst)}.",)


def _wasted(run: Run) -> float | None:
    shares = [run.value(f"kv_{use}_share_mean") for use in WASTE]
    known = [share for share in shares if share is not None]
    return sum(known) if known else None


def _mostly(run: Run) -> str:
    """Names the largest part of the waste, where there is any to speak of."""
    use = max(WASTE, key=lambda use: run.value(f"kv_{use}_share_mean") or 0.0)
    share = run.value(f"kv_{use}_share_mean") or 0.0
    return f", most of it {use} ({USES[use].meaning})" if share >= 0.1 else ""
