"""The charts of a page, each with its name for screen readers and its numbers as a table."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from reports import tables
from reports.agreement import Pair, pairs
from reports.figures.address_map import address_map
from reports.figures.agreement import error_bars, scatter
from reports.figures.capacity import capacity
from reports.figures.gantt import gantt
from reports.figures.grid import grid_figure
from reports.figures.latency import latency
from reports.figures.load_over_time import load_over_time
from reports.figures.memory_over_time import memory_over_time
from reports.figures.memory_shares import memory_shares
from reports.figures.running_over_time import running_over_time
from reports.figures.sweep import sweep_figure
from reports.figures.time_split import time_split
from reports.figures.waterfall import lives, waterfall
from reports.grid import find_grid
from reports.language import tr
from reports.latency import end_to_end, time_per_output_token, time_to_first_token
from reports.load import Run, samples_kv
from reports.ranking import limitation, ranked
from reports.sweep import Sweep, find_sweep
from reports.table import Table
from reports.validation import Validation

SHOWN = 8
"""Runs that charts with a panel or a curve each hold; the table has all."""

SPANS = 3200
"""Spans of time over all runs together: bounds a page's size."""

LATENCIES = (
    ("time to first token", "s", 1.0, time_to_first_token),
    ("time per output token", "ms", 1000.0, time_per_output_token),
    ("end-to-end latency", "s", 1.0, end_to_end),
)


class Chart(NamedTuple):
    """A figure with the fixed id of its place in the page."""

    id: str
    name: str
    figure: go.Figure
    table: Table | None


def shown(runs: Sequence[Run]) -> list[Run]:
    """The runs that charts show, in the given order: of many the best, exact ones first."""
    if len(runs) <= SHOWN:
        return list(runs)
    exact = [run for run in ranked(runs) if limitation(run) is None]
    lossy = [run for run in ranked(runs) if limitation(run) is not None]
    kept = {run.label for run in [*exact, *lossy][:SHOWN]}
    return [run for run in runs if run.label in kept]


def charts(runs: Sequence[Run], validation: Validation | None) -> Iterator[Chart]:
    """Those that have something to show, in the page's order."""
    if found := pairs(runs):
        yield from _agreement(found, validation)
    if swept := find_sweep(runs):
        yield _sweep(swept)
    elif grid := find_grid(runs):
        yield Chart("grid", tr("Whether each policy keeps up, and the p99 of TTFT, by two numbers"),
                    *grid_figure(grid))  # fmt: skip
    few = shown(runs)
    points = max(60, min(400, SPANS // len(few)))
    if any(run.count("finished") or run.count("truncated") for run in runs):
        recorded = [run for run in runs if run.value("kv_live_share_mean") is not None]
        if recorded:
            yield Chart("memory-shares", tr("What the KV budget held on average, by use and run"),
                        memory_shares(recorded), tables.shares(recorded))  # fmt: skip
        sampled = [run for run in few if len(run.timeline["time_s"])]
        if sampled:
            yield Chart("load-over-time",
                        tr("Requests arrived, done and waiting over time, by run"),
                        load_over_time(sampled, points), tables.load(sampled))  # fmt: skip
            if counted := [run for run in sampled if run.timeline["running"].any()]:
                yield Chart("running-over-time", tr("Requests running over time, by run"),
                            running_over_time(counted, points), None)  # fmt: skip
            if held := [run for run in sampled if samples_kv(run)]:
                yield Chart("memory-over-time", tr("KV memory by use over time, by run"),
                            memory_over_time(held, points), tables.memory(held))  # fmt: skip
        if mapped := [run for run in sampled if run.held is not None and len(run.held)]:
            yield Chart("address-map", tr("Addresses of the KV memory held over time, by run"),
                        *address_map(mapped))  # fmt: skip
        with_steps = [run for run in runs if len(run.steps["start_s"])]
        if with_steps:
            yield Chart("time-split", tr("Seconds the engine spent by kind of step, by run"),
                        time_split(with_steps), tables.split(with_steps))  # fmt: skip
    yield from _latencies(few, points)
    started = [run for run in few if lives(run)]
    if started:
        yield Chart("waterfall", tr("Where the time of the p50, p90 and p99 request went, by run"),
                    waterfall(started), tables.waterfall(started))  # fmt: skip
        first = ranked(started)[0]
        yield Chart("gantt", tr("When requests waited and ran: {label}", label=first.label),
                    gantt(first), None)  # fmt: skip
    curves = list(dict.fromkeys(curve for run in few for curve in run.info.capacity))
    if curves:
        yield Chart("capacity", tr("Requests at once against their length"),
                    *capacity(curves[:SHOWN]))  # fmt: skip


def _latencies(few: Sequence[Run], points: int) -> Iterator[Chart]:
    """A chart a latency, whose values are gone with it."""
    for title, unit, per_s, measure in LATENCIES:
        known = [(run.label, measure(run)) for run in few]
        if any(len(values.values) for _, values in known):
            yield Chart(title.replace(" ", "-"),
                        tr("Share of requests within a {time}, a curve a run", time=tr(title)),
                        latency(title, unit, per_s, known, points),
                        tables.latency(known, unit, per_s))  # fmt: skip


def _sweep(swept: Sweep) -> Chart:
    figure, table = sweep_figure(swept)
    return Chart("sweep", tr("Served rate and latencies against {axis}, a line a policy",
                             axis=tr(swept.axis.name)), figure, table)  # fmt: skip


def _agreement(found: Sequence[Pair], validation: Validation | None) -> Iterator[Chart]:
    yield Chart("errors", tr("Error of each predicted metric, beside its tolerance"),
                *error_bars(found, validation))  # fmt: skip
    measures: tuple[tuple[str, str, Callable[[Run], object]], ...] = (
        ("scatter-ttft", "time to first token", time_to_first_token),
        ("scatter-e2e", "end-to-end latency", end_to_end),
    )
    for id, title, _ in measures:
        yield Chart(id, tr("Predicted against measured {time} of each request", time=tr(title)),
                    scatter(found, title), None)  # fmt: skip
