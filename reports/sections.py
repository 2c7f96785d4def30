"""What the page says besides charts: setup, ledgers, refused requests, definitions.

Runs of one simulation share most of it, so equal parts are shown once, with the runs they hold for.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reports.agreement import pairs
from reports.caveats import times
from reports.formats import counted, gib, listed, number, power, rate
from reports.language import tr
from reports.load import Run
from reports.ranking import one_trace
from reports.run_json import LedgerLine, Metric, RunInfo

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
    """Requests that some runs could never serve: how many by which runs, the first by name."""

    counts: list[Shared]  # of (refused, of)
    first: tuple[tuple[int, str, int, int], ...]  # id, arrival (s), prompt, output tokens
    more: bool


def refused(runs: Sequence[Run]) -> list[Refused]:
    """Refused requests by their first ones, which policies often share: too long for the engine."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        if run.count("refused"):
            groups.setdefault(_first_refused(run), []).append(run)
    found = []
    for first, refusing in groups.items():
        counts = shared(refusing, lambda run: (run.count("refused"), len(run.requests["status"])))
        more = any(count.part[0] > len(first) for count in counts)
        everyone = len(refusing) == len(runs)
        counts = [count._replace(everyone=count.everyone and everyone) for count in counts]
        found.append(Refused(counts, first, more))
    return found


def _first_refused(run: Run) -> tuple[tuple[int, str, int, int], ...]:
    table = run.requests
    rows = (table["status"] == "refused").nonzero()[0]
    return tuple(
        (
            int(table["request_id"][row]),
            f"{table['arrival_s'][row]:,.3f}",
            int(table["prompt_tokens"][row]),
            int(table["output_tokens"][row]),
        )
        for row in rows[:SHOWN_REFUSED]
    )


class Facts(NamedTuple):
    """The setup of all runs: what they share, and where they differ whose is what."""

    common: tuple[tuple[str, str], ...]
    differing: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def facts_by_run(runs: Sequence[Run]) -> Facts:
    """Each fact once where all runs share it, else a line for each of its values."""
    common, differing = [], []
    for i, (name, text) in enumerate(facts(runs[0])):
        groups: dict[str, list[str]] = {}
        for run in runs:
            groups.setdefault(facts(run)[i][1], []).append(run.label)
        if len(groups) == 1:
            common.append((name, text))
            continue
        # Parts that all share are said once, so that what is left is the difference.
        parts = {value: value.split(" · ") for value in groups}
        shared_parts = [part for part in next(iter(parts.values()))
                        if all(part in other for other in parts.values())]  # fmt: skip
        if shared_parts:
            common.append((name, " · ".join(shared_parts)))
        own = {value: " · ".join(part for part in split if part not in shared_parts)
               for value, split in parts.items()}  # fmt: skip
        differing.append((name, tuple((listed(labels), own[value])
                                      for value, labels in groups.items())))  # fmt: skip
    return Facts(tuple(common), tuple(differing))


def facts(run: Run) -> tuple[tuple[str, str], ...]:
    """The setup in name and text, for the strip under the verdict."""
    info = run.info
    model = [info.model.name]
    if info.model.parameters:
        model.append(tr("{count} parameters", count=_parameters(info.model.parameters)))
    if info.model.layers:
        model.append(counted(info.model.layers, "layer"))
    count = f"{info.device.count} × " if info.device.count > 1 else ""
    device = [
        count + info.device.name,
        gib(info.device.memory_bytes),
        rate(info.device.bandwidth_bytes_per_s, "B/s"),
        rate(info.device.flops_per_s, "FLOP/s"),
    ]
    budget = [
        gib(info.pool.capacity_bytes),
        *_budget_each(info),
        tr("{count} B a token", count=f"{info.pool.token_bytes:,}"),
        *(
            [tr("{count} B a sequence", count=f"{info.pool.state_bytes:,}")]
            if info.pool.state_bytes
            else []
        ),
        tr("contexts up to {} tokens").format(f"{info.pool.max_len:,}"),
    ]
    trace = [info.trace.name, counted(info.trace.rows, "request"), *_arrivals(run)]
    if sum(info.trace.dropped.values()):
        trace.append(tr("{rows} dropped", rows=counted(sum(info.trace.dropped.values()), "row")))
    if info.warm_up is not None:
        trace.append(warm_up(run))
    return (
        ("Trace", " · ".join(trace)),
        ("Model", " · ".join(model)),
        ("Device", " · ".join(device)),
        ("KV budget", " · ".join(budget)),
        ("Limits", " · ".join(_limits(info.limits))),
        ("Engine", " · ".join((info.engine or "default", *_engines(info)))),
        ("Times", times(run)),
    )


def _engines(info: RunInfo) -> list[str]:
    """How many stand behind which router; nothing where there is one."""
    many = _several(info)
    if not many:
        return []
    return [many] if info.router is None else [many, tr("routed {how}", how=info.router)]


def of_each(run: Run) -> str:
    """Whose the ledger and the capacity curve are, where there are several engines."""
    many = _several(run.info)
    return tr("Of each of {engines}, not of all together.", engines=many) if many else ""


def _several(info: RunInfo) -> str:
    """How many engines, in words; empty where there is one."""
    if info.data_parallel > 1:
        return counted(info.data_parallel, "data-parallel rank")
    return counted(info.replicas, "replica") if info.replicas > 1 else ""


def _budget_each(info: RunInfo) -> list[str]:
    """The part of the pool that one of several engines has."""
    if not _several(info):
        return []
    return [tr("{size} in each", size=gib(info.pool.capacity_bytes // engines(info)))]


def engines(info: RunInfo) -> int:
    """Engines of the run, each with a cache of its own."""
    return info.replicas * info.data_parallel


def warm_up(run: Run) -> str:
    """What the metrics leave out, without a full stop; empty where they leave out nothing."""
    left_out = run.info.warm_up
    if left_out is None:
        return ""
    return tr(
        "metrics leave out {requests} that arrived in the first {seconds} s (warm-up {asked})",
        requests=counted(left_out.requests, "request"),
        seconds=f"{left_out.end_s:,.6g}",
        asked=left_out.asked,
    )


LIMITS = {
    "max_num_seqs": "at most {} requests at once",
    "max_num_batched_tokens": "at most {} tokens a step",
    "max_model_len": "contexts up to {} tokens",
    "long_prefill_token_threshold": "chunks of at most {} tokens beside other requests",
    "batching": "{} batching",
    "preemption": "preemption by {}",
    "victim": "the {} request gives way",
}


def _limits(limits: Mapping[str, Any]) -> Iterator[str]:
    for name, value in limits.items():
        if name == "pressure":
            yield _limit("preemption", value["preemption"])
            yield _limit("victim", {"last": "latest"}.get(value["victim"], value["victim"]))
            if value["preemption"] == "swap":
                yield tr("{size} of swap space", size=gib(value["swap_space_bytes"]))
        elif name == "rules":
            yield from (tr(rule.replace("_", " ")) for rule, on in value.items() if on)
        elif value != 0:  # no limit
            yield _limit(name, value)


def _limit(name: str, value: object) -> str:
    """A limit in words; one from the future by its own name."""
    shown = f"{value:,}" if isinstance(value, int) else str(value)
    if name not in LIMITS:
        return f"{tr(name.replace('_', ' '))} {shown}"
    return tr(LIMITS[name]).format(tr(shown))


def _arrivals(run: Run) -> list[str]:
    """The mean rate: requests over the span of their arrivals, as `traces describe` has it."""
    arrival = run.requests["arrival_s"]
    span_s = float(arrival[-1] - arrival[0]) if len(arrival) else 0.0
    return [tr("{rate} requests/s", rate=f"{len(arrival) / span_s:,.4g}")] if span_s > 0 else []


def title(runs: Sequence[Run]) -> str:
    """The heading: the trace, or all of them where there are several."""
    names = list(dict.fromkeys(run.info.trace.name for run in runs))
    shown = listed(names) if len(names) < 4 else counted(len(names), "trace")
    if pairs(runs):
        measured = next(run for run in runs if run.info.kind == "measured")
        whose = f"{measured.info.device.count} × " if measured.info.device.count > 1 else ""
        return tr("Predicted against measured: {model} on {device}", model=measured.info.model.name,
                  device=whose + measured.info.device.name)  # fmt: skip
    return tr("KV-cache policies on {traces}", traces=shown)


def _parameters(count: int) -> str:
    """8.03 billion, 10.2 million."""
    for size, word in ((1e9, "{size} billion"), (1e6, "{size} million")):
        if count >= size:
            return tr(word, size=f"{count / size:.3g}")
    return f"{count:,}"


IN_SENTENCES = {
    "Trace": "trace",
    "Model": "model",
    "Device": "device",
    "KV budget": "KV budget",
    "Limits": "limits",
    "Engine": "engine",
    "Times": "source of times",
}


def differing(runs: Sequence[Run]) -> list[str]:
    """What makes runs incomparable: names of setup facts in which they differ."""
    names = [name for name, _ in facts(runs[0])]
    unequal = {name for i, name in enumerate(names) if len({facts(run)[i] for run in runs}) > 1}
    unequal = unequal - {"Trace"} if one_trace(runs) else unequal | {"Trace"}
    return [tr(IN_SENTENCES[name]) for name in names if name in unequal]


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
