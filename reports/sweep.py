"""Runs that differ in one number: what varies, in order, and up to where they keep up."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from reports.formats import GIB, listed, rate_per_s
from reports.language import tr
from reports.load import Run
from reports.ranking import limitation, one_trace, stored_as, unlike
from reports.replays import replays
from reports.service import service


class Axis(NamedTuple):
    """A number of a run's setup. `text` shows a value with its unit."""

    name: str
    title: str
    value: Callable[[Run], float | None]
    text: Callable[[float], str]


def _limit(name: str, title: str) -> Axis:
    def value(run: Run) -> float | None:
        found: Any = run.info.limits.get(name)
        return float(found) if isinstance(found, int | float) else None

    return Axis(name, title, value, lambda limit: f"{limit:,.0f}")


def _gpus(run: Run) -> float:
    return float(run.info.device.count)


RATE = Axis(
    "request rate",
    "requests offered (requests/s)",
    lambda run: service(run).offered,
    lambda rate: tr("{rate} requests/s", rate=rate_per_s(rate)),
)
AXES = (
    _limit("max_num_seqs", "most requests at once (requests)"),
    _limit("max_num_batched_tokens", "most tokens a step (tokens)"),
    _limit("max_model_len", "longest context (tokens)"),
    Axis("number of GPUs", "GPUs (devices)", _gpus, lambda count: f"{count:,.0f}"),
    Axis(
        "KV budget",
        "KV budget (GiB)",
        lambda run: run.info.pool.capacity_bytes / GIB,
        lambda size: f"{size:,.2f} GiB",
    ),
)
"""In this order of precedence: the KV budget follows from the others."""


class Sweep(NamedTuple):
    """Lines by policy, each of (value, run), ascending."""

    axis: Axis
    lines: dict[str, list[tuple[float, Run]]]


def find_sweep(runs: Sequence[Run]) -> Sweep | None:
    """The sweep that these runs are, if they are one: at least two values for some policy."""
    if len(runs) < 2 or unlike(runs) or any(run.info.kind == "measured" for run in runs):
        return None
    if replays(runs):
        return None
    if len({run.info.device.name for run in runs}) > 1:
        return None
    axes = varying(runs)
    if len(axes) != 1:
        return None
    lines: dict[str, list[tuple[float, Run]]] = {}
    for run in runs:
        value = axes[0].value(run)
        if value is None:
            return None
        lines.setdefault(run.info.policy.spec, []).append((value, run))
    for line in lines.values():
        line.sort(key=lambda point: point[0])
        if len({value for value, _ in line}) < len(line):
            return None
    return Sweep(axes[0], lines) if max(map(len, lines.values())) > 1 else None


def varying(runs: Sequence[Run]) -> list[Axis]:
    """The numbers in which these runs differ; not the KV budget where it follows from another."""
    axes = [axis for axis in AXES if len({axis.value(run) for run in runs}) > 1]
    if len(axes) > 1 and axes[-1] is AXES[-1]:
        others = {tuple(axis.value(run) for axis in axes[:-1]) for run in runs}
        whole = {tuple(axis.value(run) for axis in axes) for run in runs}
        axes = axes[:-1] if len(whole) == len(others) else axes
    return axes if one_trace(runs) else [*axes, RATE]


def in_order(sweep: Sweep) -> list[Run]:
    """The runs along the axis, each named by its policy and its value."""
    return [
        replace(run, label=f"{policy} · {sweep.axis.text(value)}")
        for policy, line in sweep.lines.items()
        for value, run in line
    ]


def headline(sweep: Sweep, policy: str) -> str:
    """Up to where a policy keeps up."""
    line = sweep.lines[policy]
    text = sweep.axis.text
    up = [text(value) for value, run in line if service(run).keeps_up]
    behind = [text(value) for value, run in line if not service(run).keeps_up]
    first_is_up = service(line[0][1]).keeps_up
    turns = sum(service(a[1]).keeps_up != service(b[1]).keeps_up for a, b in pairwise(line))
    names = {"policy": policy, "axis": tr(sweep.axis.name)}
    if sweep.axis is RATE and not behind:
        return tr("{policy} keeps up to {most}, the highest rate tried.", most=up[-1], **names)
    if not behind:
        return tr("{policy} keeps up at every {axis} tried.", **names)
    if not up:
        low = text(line[0][0])
        return tr("{policy} falls behind at every {axis} tried, {low} and more.", low=low, **names)
    if turns == 1 and sweep.axis is RATE and first_is_up:
        return tr(
            "{policy} keeps up to {most} and falls behind at {least}.",
            most=up[-1],
            least=rate_per_s(next(v for v, run in line if not service(run).keeps_up)),
            **names,
        )
    if turns == 1 and not first_is_up:
        return tr(
            "{policy} keeps up from a {axis} of {least} on and falls behind at {most}.",
            least=up[0],
            most=behind[-1],
            **names,
        )
    return tr(
        "{policy} keeps up at {up} and falls behind at {behind} ({axis}).",
        up=listed(up),
        behind=listed(behind),
        **names,
    )


def lossy(sweep: Sweep) -> dict[str, str]:
    """Policies that change the model's answers, and how."""
    found = {
        policy + stored_as(line[0][1]): limitation(line[0][1])
        for policy, line in sweep.lines.items()
    }
    return {policy: words for policy, words in found.items() if words}
