"""The numbers behind each chart as a small table, for readers without JavaScript or eyes."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from reports.bands import spans
from reports.figures.memory_shares import cached_share
from reports.figures.time_split import PARTS, seconds
from reports.figures.waterfall import lives
from reports.formats import GIB, number
from reports.language import tr
from reports.latency import Latency
from reports.load import Run, knows_parts
from reports.table import Table
from reports.theme import USES

SPANS = 8
"""Rows a run: enough to see a trend."""

QUANTILES = (1, 10, 25, 50, 75, 90, 99)


def shares(runs: Sequence[Run]) -> Table:
    """Per cent of the budget by use; `cached` is a part of `free`."""
    head = (tr("run"), *(f"{tr(look.label)} (%)" for look in USES.values()),
            tr("of free: cached (%)"))  # fmt: skip
    return Table(
        head,
        tuple(
            (
                run.label,
                *(number(run.value(f"kv_{use}_share_mean"), "%") for use in USES),
                number(cached_share(run), "%"),
            )
            for run in runs
        ),
    )


def memory(runs: Sequence[Run]) -> Table:
    """Mean GiB by use in equal spans of time; of a run whose parts are not known what is free."""
    head = (tr("run"), tr("time (s)"), *(f"{tr(look.label)} (GiB)" for look in USES.values()))
    return Table(head, tuple(_spans(runs, lambda run, mean: tuple(
        number(mean[f"{use}_bytes"] / GIB if use == "free" or knows_parts(run) else None, "s")
        for use in USES))))  # fmt: skip


def load(runs: Sequence[Run]) -> Table:
    """Requests running and waiting, means of equal spans of time."""
    head = (tr("run"), tr("time (s)"), tr("running, mean"), tr("waiting, mean"))
    return Table(
        head,
        tuple(
            _spans(
                runs,
                lambda run, mean: (number(mean["running"], "s"), number(mean["waiting"], "s")),
            )
        ),
    )


def _spans(
    runs: Sequence[Run], cells: Callable[[Run, dict[str, float]], tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    for run in runs:
        found = spans(run.timeline["time_s"], SPANS)
        means = {name: found.mean(values) for name, values in run.timeline.items()
                 if len(values)}  # fmt: skip
        for i, at in enumerate(found.time[:SPANS]):
            row = {name: float(values[i]) for name, values in means.items()}
            yield (run.label, number(float(at), "s"), *cells(run, row))


def split(runs: Sequence[Run]) -> Table:
    """Seconds by part."""
    return Table(
        (tr("run"), *(f"{tr(part)} (s)" for part in PARTS)),
        tuple((run.label, *(number(value, "s") for value in seconds(run))) for run in runs),
    )


def waterfall(runs: Sequence[Run]) -> Table:
    """The requests at the percentiles."""
    return Table(
        (tr("run"), tr("percentile"), tr("request id"), tr("queued (s)"), tr("prefill (s)"),
         tr("decode (s)"), tr("preempted (s)"), tr("recomputing (s)"), tr("preemptions"),
         tr("recomputed (tokens)")),
        tuple(
            (
                run.label,
                life.name,
                str(life.request),
                number(life.queued, "s"),
                number(life.prefill, "s"),
                number(life.decode, "s"),
                number(life.preempted, "s"),
                number(life.recomputing, "s"),
                f"{life.preemptions:,}",
                f"{life.recomputed_tokens:,}",
            )
            for run in runs
            for life in lives(run)
        ),
    )  # fmt: skip


def latency(runs: Sequence[tuple[str, Latency]], unit: str, per_s: float) -> Table:
    """Quantiles over the requests that have this latency."""
    return Table(
        (tr("run"), tr("of requests"), *(f"p{q} ({unit})" for q in QUANTILES)),
        tuple(
            (
                label,
                f"{len(known.values):,} / {known.of:,}",
                *(number(value, unit) for value in _quantiles(known.values * per_s)),
            )
            for label, known in runs
            if len(known.values)
        ),
    )


def _quantiles(values: NDArray[np.float64]) -> list[float]:
    """QUANTILES of values that nobody needs any more: they change places."""
    return [float(one) for one in np.percentile(values, QUANTILES, overwrite_input=True)]
