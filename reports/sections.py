"""What the page says besides charts: setup, ledgers, refused requests, definitions.

Runs of one simulation share most of it, so equal parts are shown once, with the runs they hold for.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from reports.load import Run
from reports.run_json import LedgerLine, Metric
from reports.text import counted, gib, number, power

SHOWN_REFUSED = 10


class Shared(NamedTuple):
    """A part and the labels of the runs that have it."""

    labels: tuple[str, ...]
    everyone: bool
    part: Any


def shared(runs: Sequence[Run], part: Callable[[Run], Hashable]) -> list[Shared]:
    """Equal parts once each, in order of first appearance."""
    groups: dict[Hashable, list[str]] = {}
    for run in runs:
        groups.setdefault(part(run), []).append(run.label)
    return [Shared(tuple(labels), len(groups) == 1, value) for value, labels in groups.items()]


class LedgerRow(NamedTuple):
    name: str
    bytes: int
    size: str
    share: float
    why: str


def ledger(run: Run) -> tuple[LedgerRow, ...]:
    """Every byte of the device; what the lines don't account for is a line of its own."""
    total = run.info.device.memory_bytes
    lines = list(run.info.ledger)
    missing = total - sum(line.bytes for line in lines)
    if missing:
        lines.append(
            LedgerLine(name="unaccounted", bytes=missing, why="the lines miss the device's memory")
        )
    return tuple(
        LedgerRow(line.name, line.bytes, gib(line.bytes), line.bytes / total * 100, line.why)
        for line in lines
    )


class Refused(NamedTuple):
    """Requests that could never be served, the first of them by name."""

    requests: int
    of: int
    first: tuple[tuple[int, str, int, int], ...]  # id, arrival (s), prompt, output tokens


def refused(run: Run) -> Refused:
    """The run's refused requests. Policies often refuse the same: too long for the engine."""
    table = run.requests
    rows = (table["status"] == "refused").nonzero()[0]
    first = tuple(
        (
            int(table["request_id"][row]),
            f"{table['arrival_s'][row]:,.3f}",
            int(table["prompt_tokens"][row]),
            int(table["output_tokens"][row]),
        )
        for row in rows[:SHOWN_REFUSED]
    )
    return Refused(len(rows), len(table["status"]), first)


def facts(run: Run) -> tuple[tuple[str, str], ...]:
    """The setup in name and text, for the strip under the verdict."""
    info = run.info
    model = [info.model.name]
    if info.model.parameters:
        model.append(f"{info.model.parameters / 1e9:.2f} billion parameters")
    if info.model.layers:
        model.append(counted(info.model.layers, "layer"))
    device = [
        info.device.name,
        gib(info.device.memory_bytes),
        power(info.device.bandwidth_bytes_per_s, "B/s"),
        power(info.device.flops_per_s, "FLOP/s"),
    ]
    budget = [
        gib(info.pool.capacity_bytes),
        f"{info.pool.token_bytes:,} B a token",
        f"contexts up to {info.pool.max_len:,} tokens",
    ]
    trace = [info.trace.name, counted(info.trace.rows, "request")]
    if sum(info.trace.dropped.values()):
        trace.append(counted(sum(info.trace.dropped.values()), "row") + " dropped")
    return (
        ("Trace", " · ".join(trace)),
        ("Model", " · ".join(model)),
        ("Device", " · ".join(device)),
        ("KV budget", " · ".join(budget)),
        ("Limits", " · ".join(f"{name} {_plain(value)}" for name, value in info.limits.items())),
    )


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def differing(runs: Sequence[Run]) -> list[str]:
    """What makes runs incomparable: names of setup facts in which they differ."""
    names = [name for name, _ in facts(runs[0])]
    return [name for i, name in enumerate(names) if len({facts(run)[i] for run in runs}) > 1]


def definitions(runs: Sequence[Run]) -> list[Metric]:
    """Every metric of any run, once."""
    return list({metric.name: metric for run in runs for metric in run.info.metrics}.values())


def constants(run: Run) -> Hashable:
    """The cost model's name and its constants as (name, value, unit, source)."""
    cost = run.info.cost
    return cost.name, tuple(
        (
            constant.name,
            number(constant.value, "")
            if isinstance(constant.value, float) and 0.001 <= abs(constant.value) < 1e6
            else power(constant.value, "").strip()
            if isinstance(constant.value, float)
            else str(constant.value),
            constant.unit,
            constant.source,
        )
        for constant in cost.constants
    )


def provenance(run: Run) -> Hashable:
    """The trace's origin: what was read, dropped and noted."""
    trace = run.info.trace
    return (
        trace.name,
        trace.source,
        trace.rows,
        trace.rows_read,
        tuple(trace.dropped.items()),
        trace.notes,
    )


def versions(run: Run) -> Hashable:
    """kvtwin's version and those of the libraries that made the numbers."""
    return (("kvtwin", run.info.kvtwin_version), *run.info.versions.items())
