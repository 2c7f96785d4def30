"""The answer of a search, for people and as a record."""

from collections.abc import Iterator
from typing import Any

from sim.run.simulation import Setup, prepared
from sim.sweep.limits_told import binding, broken, margin
from sim.sweep.search import Found, Searched
from sim.sweep.serve_lines import serve_lines
from workloads.schema import Trace


def answer_lines(searched: Searched, trace: Trace) -> Iterator[str]:
    """The chosen configuration, as commands too, what binds, the margin, the runner-up."""
    best = searched.best
    if best is None:
        yield "No configuration meets the level. " + _nearest(searched)
        return
    setup = prepared(trace, best.options)
    slo = setup.level.text if setup.level else ""
    yield f"{_what(searched, best, setup)} meets {slo}."
    yield f"  {_setting(best, setup)}"
    yield f"  Level: {margin(best.row, slo)}."
    if best.beyond is not None:
        yield f"  One step on: {_reason(best.beyond, slo)}."
    yield f"  What binds: {binding(best.row, setup)}."
    lines = serve_lines(setup)
    yield f"  vLLM:   {lines.vllm}"
    yield f"  SGLang: {lines.sglang}"
    for note in lines.notes:
        yield f"  note: {note}"
    if searched.runner_up is not None:
        second = searched.runner_up
        other = prepared(trace, second.options)
        yield f"Runner-up: {_what(searched, second, other)}, {_setting(second, other)}."
    elif searched.configurations > 1:
        yield "Runner-up: none, no other configuration meets the level."


def answer_record(searched: Searched, trace: Trace) -> dict[str, Any]:
    """The same as JSON."""
    found = {
        name: None if one is None else _record(searched, one, trace)
        for name, one in (("best", searched.best), ("runner_up", searched.runner_up))
    }
    question = searched.question
    return {
        "objective": question.objective,
        "over": question.over,
        "resolution": question.resolution,
        "draws": question.draws,
        **found,
        "configurations": searched.configurations,
        "points": searched.points,
        "runs": len(searched.rows),
    }


def _record(searched: Searched, found: Found, trace: Trace) -> dict[str, Any]:
    setup = prepared(trace, found.options)
    lines = serve_lines(setup)
    slo = setup.level.text if setup.level else ""
    return {
        "answer": _what(searched, found, setup),
        "worth": found.worth,
        "gpus": setup.gpus,
        "policy": setup.label,
        "options": {name: str(value) for name, value in found.point.items()},
        "binds": binding(found.row, setup),
        "margin": margin(found.row, slo),
        "one_step_on": None if found.beyond is None else _reason(found.beyond, slo),
        "vllm": lines.vllm,
        "sglang": lines.sglang,
        "notes": list(lines.notes),
        "metrics": found.row,
    }


def _what(searched: Searched, found: Found, setup: Setup) -> str:
    question = searched.question
    gpus = f"{setup.gpus} × {setup.device.name}"
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


def _nearest(searched: Searched) -> str:
    row = searched.rows[-1]
    return f"The last one tried: {_reason(row, str(row['slo']))}."
