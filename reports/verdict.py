"""The first words of a page: does it keep up, which policy serves best, what is wasted and why.

Sentences are made from the numbers alone. A policy that changes the model's answers is named apart
from all that don't.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from reports import agreement, closed, sweep, wasted
from reports.cuts import cut_sentences, served_whole_by_memory
from reports.formats import counted, duration, gib, listed, rate_per_s
from reports.language import retold, tr
from reports.load import Run
from reports.ranking import (
    CLOSE,
    cost_models,
    limitation,
    ranked,
    simplicity,
    stored_as,
    tied,
    unlike,
)
from reports.replays import first_words, replays
from reports.service import service
from reports.validation import Row, Validation

RULE = (
    "Best: most requests finished in full, then keeping up with the load, then the lowest mean "
    "end-to-end latency, among the policies that keep the model's answers as they are; what "
    "differs by less than 1 % is a tie, and the simplest is named. "
    "Falling behind: more than 2 % of all requests (and more than 4) wait to be started, for 1 % "
    "of the span of arrivals or longer. Offered: requests ÷ the span of their arrivals; of a run "
    "stopped at a horizon, those before it ÷ the horizon. "
    "Waste: memory that holds no token and that no other request can have "
    "(reserved, internal, external)."
)


class Verdict(NamedTuple):
    """`tone` is ok, mixed (something to look at) or failed (doesn't bear the load)."""

    tone: str
    status: str
    headline: str
    details: tuple[str, ...]
    best: str | None
    vital: tuple[str, ...] = ()  # details that a terminal says too


def verdict(runs: Sequence[Run], validation: Validation | None = None) -> Verdict:
    """The report's first words; `validation` holds judged rows of predictions."""
    if all(len(run.requests["status"]) == 0 for run in runs):
        text = tr("The trace holds no requests, so there is nothing to compare.")
        return Verdict("failed", tr("nothing to serve"), text, (), None)
    if pairs := agreement.pairs(runs):
        return _agreement(agreement.judged(pairs, validation))
    if both := replays(runs):
        return Verdict(*first_words(both))
    if found := unlike(runs):
        return _unlike(runs, found)
    if swept := sweep.find_sweep(runs):
        return _swept(swept)
    served = [run for run in runs if _served(run)]
    judged = [run for run in served if limitation(run) is None] or served
    if not judged:
        return _none_served(runs)
    ties = tied(judged)
    best = ties[0]
    headline = (
        _alone(best) if len(judged) == 1 else _against(judged, best, [run.label for run in ties])
    )
    vital = (*cut_sentences(runs), *_apart(runs, judged))
    details = (
        *_load(best, alone=len(judged) == 1),
        *_latencies(judged, best),
        *_ties(ties),
        *vital,
        *_unknown_limitations(runs),
        *wasted.sentences(judged, best),
    )
    return Verdict(*_tone(best), headline, details, best.label if judged[1:] else None, vital)


def comparable(runs: Sequence[Run]) -> bool:
    """Whether the runs' numbers can be held against each other."""
    alike = unlike(runs) is None and not replays(runs)
    return alike and sweep.find_sweep(runs) is None and not agreement.pairs(runs)


def _tone(run: Run) -> tuple[str, str]:
    found = service(run)
    if not found.keeps_up and not found.too_few:
        return "failed", tr("falls behind the load")
    if run.count("unfinished"):
        return "mixed", tr("stopped before the end")
    if not served_whole_by_memory(run):
        return "mixed", tr("not every request is served in full")
    if found.behind_from_s is not None:
        return "mixed", tr("falls behind for a while")
    loaded = found.offered and not closed.loop(run)
    return "ok", tr("keeps up with the load") if loaded else tr("every request is served")


def _served(run: Run) -> int:
    return run.count("finished") + run.count("truncated")


def _alone(run: Run) -> str:
    found = service(run)
    if users := closed.loop(run):
        return closed.alone(run, users)
    if found.offered is None and not found.too_few:
        values = {
            "time": duration(run.value("makespan_s") or 0.0),
            "label": run.label,
            "served": rate_per_s(found.served or 0.0),
        }
        if (count := len(run.requests["status"])) == 1:
            return tr("One request takes {time} with {label}: {served} requests/s.", **values)
        return tr(
            "{requests} that arrive at once take {time} with {label}: {served} requests/s.",
            requests=counted(count, "request"),
            **values,
        )
    rates = tr(
        "{offered} requests/s offered, {served} served",
        offered=rate_per_s(found.offered or 0.0),
        served=rate_per_s(found.served or 0.0),
    )
    return f"{_bears(run)}{tr(': ')}{rates}{tr('.')}"


def _bears(run: Run) -> str:
    """Whether the run keeps up, without a full stop."""
    found = service(run)
    if found.too_few:
        return tr(
            "{label} is stopped when {requests} have arrived, too few to judge",
            label=run.label,
            requests=counted(found.arrived, "request"),
        )
    if found.behind_from_s is None:
        return tr("{label} keeps up", label=run.label)
    since = duration(found.behind_from_s)
    if found.caught_up_s is None:
        return tr("{label} falls behind from {since}", label=run.label, since=since)
    return tr(
        "{label} falls behind from {since} and catches up by {until}",
        label=run.label,
        since=since,
        until=duration(found.caught_up_s),
    )


def _against(judged: Sequence[Run], best: Run, ties: list[str]) -> str:
    """The headline over several policies."""
    own = service(best)
    if users := closed.loop(best):
        return closed.against(best, ranked(judged)[-1], users)
    if own.too_few:
        return tr(
            "Stopped when {requests} have arrived, too few to judge: {label} serves {served} "
            "requests/s.",
            requests=counted(own.arrived, "request"),
            label=best.label,
            served=rate_per_s(own.served or 0.0),
        )
    up = [run for run in judged if service(run).keeps_up]
    behind = [run for run in judged if not service(run).keeps_up]
    served = rate_per_s(own.served or 0.0)
    if own.offered is None:
        return tr(
            "{label} is done first: {served} requests/s of requests that arrive at once.",
            label=best.label,
            served=served,
        )
    names = {"label": best.label, "offered": rate_per_s(own.offered)}
    if not up:
        return tr(
            "No policy keeps up with {offered} requests/s: {label} serves most, {served}.",
            served=served,
            **names,
        )
    if behind and own.keeps_up:
        worst = min(behind, key=lambda run: service(run).served or 0.0)
        return tr("{label} keeps up with {offered} requests/s; ", **names) + _worst(worst)
    if len({run.count("finished") for run in judged}) > 1:
        fewest = min(judged, key=lambda run: run.count("finished"))
        return tr(
            "{label} serves most requests in full: {most}, against {fewest} with {other}.",
            most=f"{best.count('finished'):,}",
            fewest=f"{fewest.count('finished'):,}",
            other=fewest.label,
            **names,
        )
    count = {"count": f"{len(judged):,}"}
    if len(ties) == len(judged):
        return tr(
            "{count} policies keep up with {offered} requests/s, within 1 % of each other: "
            "{label} is the simplest.",
            **count,
            **names,
        )
    slowest = ranked(judged)[-1]
    return tr(
        "{count} policies keep up with {offered} requests/s: {label} answers soonest, in {mean} on "
        "average against {longest} with {slowest}.",
        mean=_mean(best),
        longest=_mean(slowest),
        slowest=slowest.label,
        **count,
        **names,
    )


def _worst(run: Run) -> str:
    served = rate_per_s(service(run).served or 0.0)
    lost = wasted.share(run)
    if lost is None:
        return tr("{label} serves {served}.", label=run.label, served=served)
    return tr(
        "{label} serves {served} and wastes {wasted} %.",
        label=run.label,
        served=served,
        wasted=f"{lost:.3g}",
    )


def _load(run: Run, alone: bool) -> tuple[str, ...]:
    """How the queue stands, where there is one to speak of."""
    found = service(run)
    if found.behind_from_s is None or found.offered is None:
        return ()
    if found.caught_up_s is not None:
        return (
            tr(
                "At most {waiting} wait before one that arrives, at {time}.",
                waiting=counted(found.waiting_peak, "request"),
                time=duration(found.peak_s),
            ),
        )
    tail = run.value("ttft_ms_p99")
    state = tr("the queue still grows") if found.grows else tr("the queue grows no more")
    return (
        *(() if alone else (_bears(run) + tr("."),)),
        tr(
            "At the last arrival, {end}, {waiting} wait before it and {state}; TTFT p99 is {tail}.",
            end=duration(found.arrivals_end_s),
            waiting=counted(found.waiting_at_end, "request"),
            state=state,
            tail="–" if tail is None else duration(tail / 1000),
        ),
    )


def _mean(run: Run) -> str:
    value = run.value("e2el_ms_mean")
    return "–" if value is None else duration(value / 1000)


def _latencies(judged: Sequence[Run], best: Run) -> tuple[str, ...]:
    if best.value("e2el_ms_mean") is None:
        return ()
    slowest = ranked(judged)[-1]
    if slowest.label in [run.label for run in tied(judged)]:
        return (tr("A request takes {mean} on average with {label}.", mean=_mean(best),
                   label=best.label),)  # fmt: skip
    return (
        tr(
            "A request takes {mean} on average with {label}, {longest} with {slowest}.",
            mean=_mean(best),
            label=best.label,
            longest=_mean(slowest),
            slowest=slowest.label,
        ),
    )


def _ties(ties: Sequence[Run]) -> tuple[str, ...]:
    if len(ties) < 2:
        return ()
    said = tr(
        "Within {share} % of it, and so not told apart: {others}.",
        share=f"{CLOSE * 100:.0f}",
        others=listed([run.label for run in ties[1:]]),
    )
    if len({simplicity(run)[1] for run in ties}) > 1:
        said += tr(
            " Block tables and the slower kernels of small blocks are not charged, so a tie goes "
            "to the usual 16."
        )
    return (said,)


def _apart(runs: Sequence[Run], judged: Sequence[Run]) -> tuple[str, ...]:
    """Lossy runs, a sentence each; all are where none is exact."""
    said = []
    for run in runs:
        if (lost := limitation(run)) is None or not _served(run):
            continue
        names = {"label": run.label, "loss": retold(lost)}
        if run in judged:
            names["label"] += stored_as(run)
            said.append(tr("{label} changes the model's answers: {loss}.", **names))
            continue
        label = tr("{label} ({loss})", **names)
        said.append(
            tr("Apart, because it changes the model's answers: ")
            + _bears(replace(run, label=label))
            + tr(", {mean} on average.", mean=_mean(run))
        )
    return tuple(said)


def _unknown_limitations(runs: Sequence[Run]) -> tuple[str, ...]:
    """A run folder may not say whether its policy is exact; then no ranking may imply it."""
    if len(runs) == 1 or all("limitation" in run.info.policy.model_fields_set for run in runs):
        return ()
    return (
        tr(
            "This counts service, not answers: a policy that drops or compresses KV changes the "
            "model's answers."
        ),
    )


def _unlike(runs: Sequence[Run], what: str) -> Verdict:
    outcomes = tuple(_alone(run) for run in runs if _served(run))
    texts = {
        "traces": tr("These runs replay different traces, so no winner is named."),
        "models": tr("These runs serve different models, so no winner is named."),
        "cost models": tr(
            "These runs take their times from different cost models ({names}), so no winner is "
            "named.",
            names=tr(", ").join(cost_models(runs)),
        ),
    }
    status = {"traces": tr("different traces"), "models": tr("different models"),
              "cost models": tr("different cost models")}  # fmt: skip
    return Verdict("mixed", status[what], texts[what], outcomes, None)


def _agreement(rows: Sequence[Row]) -> Verdict:
    failed = any(row.passed is False for row in rows)
    return Verdict(
        "mixed" if failed else "ok",
        tr("predicted against measured"),
        agreement.sentence(rows),
        agreement.belief(rows),
        None,
    )


def _swept(found: sweep.Sweep) -> Verdict:
    said = [sweep.headline(found, policy) for policy in found.lines]
    up = [service(run).keeps_up for line in found.lines.values() for _, run in line]
    tone = "ok" if all(up) else "mixed" if any(up) else "failed"
    apart = tuple(
        tr("{label} changes the model's answers: {loss}.", label=policy, loss=retold(loss))
        for policy, loss in sweep.lossy(found).items()
    )
    status = tr("what varies: {axis}", axis=tr(found.axis.name))
    return Verdict(tone, status, said[0], (*said[1:], *apart), None, apart)


def _none_served(runs: Sequence[Run]) -> Verdict:
    run = runs[0]
    total = counted(len(run.requests["status"]), "request")
    if any(other.count("unfinished") for other in runs):
        text = tr("None of {total} was served before the run ended.", total=total)
        return Verdict("failed", tr("no request served"), text, (), None)
    budgets = {gib(run.info.pool.capacity_bytes) for run in runs}
    longest = {f"{run.info.pool.max_len:,}" for run in runs}
    whose = tr("the policy's") if len(runs) == 1 else tr("any policy's")
    text = tr(
        "Every one of {total} was refused: even the shortest prompt, of {shortest}, leaves no room "
        "for an answer within {whose} own options, the KV budget of {budget} and the longest "
        "context of {longest} tokens.",
        total=total,
        shortest=counted(int(run.requests["prompt_tokens"].min()), "token"),
        whose=whose,
        budget=tr(" or ").join(sorted(budgets)),
        longest=tr(" or ").join(sorted(longest)),
    )
    return Verdict("failed", tr("all requests refused"), text, (), None)
