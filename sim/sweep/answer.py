"""The answer of a search, for people and as a record."""

from collections.abc import Iterator
from typing import Any

from sim.run.simulation import Setup, prepared
from sim.sweep.grid import Value
from sim.sweep.limits_told import binding, broken, margin
from sim.sweep.search import Found, Searched
from sim.sweep.serve_lines import serve_lines
from workloads.schema import Trace

MOST_REFUSED = 5
"""Told one by one; the table has them all."""


def answer_lines(searched: Searched, trace: Trace) -> Iterator[str]:
    """The chosen configuration, as commands too, what binds, the margin, the runner-up."""
    best = searched.best
    if searched.question.trials is not None:
        yield (
            f"Tried {searched.configurations:,} of {searched.combinations:,} combinations, chosen "
            f"by Optuna's TPE in {searched.question.trials:,} trials; another may be better."
        )
    if best is None:
        yield "No configuration meets the level. " + _nearest(searched)
        yield from _refused(searched)
        return
    setup = prepared(trace, best.options)
    slo = setup.level.text if setup.level else ""
    yield _headline(searched, best, setup, slo)
    yield f"  {_setting(best, setup)}"
    yield from _losses(searched, setup, trace)
    yield f"  Level: {margin(best.row, slo)}."
    if best.row.get("goodput") is not None:
        yield (
            f"  Goodput: {best.row['goodput']:,.4g} requests/s; "
            f"{best.row['slo_attainment']:.3g} % of requests within the level."
        )
    if best.row.get("unsteady") is not None:
        yield f"  warning: {best.row['unsteady']}; expected a longer trace, or more of it (--first)"
    if best.beyond is None and searched.question.most is not None:
        yield "  One step on: not tried, it is the highest load asked for."
    if best.beyond is not None:
        yield f"  One step on: {_reason(best.beyond, slo)}."
    yield f"  What binds: {binding(best.row, setup)}."
    lines = serve_lines(setup, best.options.kv_cache_memory_bytes)
    for name, line in (("vLLM:  ", lines.vllm), ("SGLang:", lines.sglang)):
        if line is not None:
            yield f"  {name} {line}"
    for note in lines.notes:
        yield f"  note: {note}"
    if searched.runner_up is not None:
        second = searched.runner_up
        other = prepared(trace, second.options)
        lost = other.limitation
        changes = f"; it changes the model's answers: {lost}" if lost else ""
        yield f"Runner-up: {_what(searched, second, other)}, {_setting(second, other)}{changes}."
    elif searched.configurations > 1:
        yield "Runner-up: none, no other configuration meets the level."
    yield from _refused(searched)


def answer_record(searched: Searched, trace: Trace) -> dict[str, Any]:
    """The same as JSON."""
    found = {
        name: None if one is None else _record(searched, one, trace)
        for name, one in (
            ("best", searched.best),
            ("runner_up", searched.runner_up),
            ("lossless", searched.lossless),
        )
    }
    question = searched.question
    return {
        "objective": question.objective,
        "over": question.over,
        "resolution": question.resolution,
        "draws": question.draws,
        **found,
        "configurations": searched.configurations,
        "combinations": searched.combinations,
        "trials": question.trials,
        "refused": [
            {"options": _texts(one.point), "reason": one.reason} for one in searched.refused
        ],
        "points": searched.points,
        "runs": len(searched.rows),
        "run_before": searched.reused,
        "in_no_row": searched.others,
    }


def _record(searched: Searched, found: Found, trace: Trace) -> dict[str, Any]:
    setup = prepared(trace, found.options)
    lines = serve_lines(setup, found.options.kv_cache_memory_bytes)
    slo = setup.level.text if setup.level else ""
    return {
        "answer": _what(searched, found, setup),
        "worth": found.worth if found.at_once is None else None,
        "limit_found": found.at_once is None,
        "changes_answers": setup.limitation,
        "warning": found.row.get("unsteady"),
        "gpus": setup.gpus,
        "policy": setup.label,
        "options": _texts(found.point),
        "binds": binding(found.row, setup),
        "margin": margin(found.row, slo),
        "one_step_on": None if found.beyond is None else _reason(found.beyond, slo),
        "vllm": lines.vllm,
        "sglang": lines.sglang,
        "notes": list(lines.notes),
        "metrics": found.row,
    }


def _texts(point: dict[str, Value]) -> dict[str, str]:
    return {name: str(value) for name, value in point.items()}


def _headline(searched: Searched, best: Found, setup: Setup, slo: str) -> str:
    if best.at_once is None:
        return f"{_what(searched, best, setup)} meets {slo}."
    return (
        f"No limit found on {setup.gpus} × {setup.device.name}: {slo} holds with all "
        f"{best.at_once:,} requests at once."
    )


def _losses(searched: Searched, setup: Setup, trace: Trace) -> Iterator[str]:
    lost = setup.limitation
    if lost is None:
        return
    stored = "" if setup.stored_loss is None else f" with KV in {setup.ledger.kv.name}"
    yield f"  {setup.label}{stored} changes the model's answers: {lost}."
    if (exact := searched.lossless) is not None:
        other = prepared(trace, exact.options)
        yield f"  Best that doesn't: {_what(searched, exact, other)}, {_setting(exact, other)}."
    elif searched.configurations > 1:
        yield "  Best that doesn't: none meets the level."


def _what(searched: Searched, found: Found, setup: Setup) -> str:
    question = searched.question
    gpus = f"{setup.gpus} × {setup.device.name}"
    if found.at_once is not None:
        return f"no limit found on {gpus}"
    if question.objective == "load":
        words = {"request_rate": "requests/s", "users": "users", "concurrency": "at once"}
        return f"{found.worth:g} {words[question.over]} on {gpus}"
    cost = f", ${-found.worth:,.2f} an hour" if question.objective == "cost" else ""
    return f"{setup.replicas} × tp {setup.tp}: {gpus}{cost}"


def _setting(found: Found, setup: Setup) -> str:
    given = {**found.point, "policy": setup.label}
    return ", ".join(f"{name} {value}" for name, value in given.items() if name != "price")


def _reason(row: dict[str, Any], slo: str) -> str:
    return str(row["error"]) if row["error"] is not None else broken(row, slo)


def _refused(searched: Searched) -> Iterator[str]:
    """What was left out of the search."""
    for one in searched.refused[:MOST_REFUSED]:
        values = ", ".join(f"{name} {value}" for name, value in one.point.items())
        yield f"Can't be run: {values or 'the configuration'}: {one.reason}."
    if (more := len(searched.refused) - MOST_REFUSED) > 0:
        yield f"Can't be run: {more:,} more configurations (column error of the table)."


def _nearest(searched: Searched) -> str:
    row = next(row for row in reversed(searched.rows) if row["error"] is None)
    return f"The last one tried: {broken(row, str(row['slo']))}."
