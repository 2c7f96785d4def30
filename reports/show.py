"""One run on a terminal: its verdict, sparklines, where memory was wasted, the slowest requests."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.bands import spans
from reports.formats import duration, durations, gib
from reports.language import tr
from reports.load import Run, optional
from reports.sections import engines
from reports.terminal import padded, print_outcome
from reports.theme import USES, WASTE

BARS = "▁▂▃▄▅▆▇█"
SPARKS = 48
SLOWEST = 5


def print_run(run: Run) -> None:
    """All of it, within 80 columns."""
    print_outcome([run])
    print()
    for line in (*_sparklines(run), *_wasted(run), *_slowest(run)):
        print(line)


def sparkline(values: NDArray[Any], top: float) -> str:
    """A bar a value, eight heights from 0 to `top`."""
    heights = np.clip(values / top * len(BARS), 0, len(BARS) - 1) if top > 0 else values * 0
    return "".join(BARS[int(height)] for height in heights)


def _sparklines(run: Run) -> Iterator[str]:
    line = run.timeline
    if not len(line["time_s"]):
        return
    found = spans(line["time_s"], SPARKS)
    used = run.info.pool.capacity_bytes - line["free_bytes"]
    share = 100 / run.info.pool.capacity_bytes
    for name, values, peak_of_steps, unit in (
        ("running", line["running"], run.value("running_peak"), ""),
        ("waiting", line["waiting"], run.value("waiting_peak"), ""),
        ("KV taken", share * used, share * (run.value("kv_used_peak_bytes") or 0), " %"),
    ):
        means = found.mean(values)
        highest = float(values.max())
        top = 100.0 if unit else highest
        if engines(run.info) == 1:  # the peaks of several are of one, samples their sum
            highest = max(highest, peak_of_steps or 0.0)  # samples pass over the steps between
        peak = f"{highest:,.0f}{unit}"
        yield f"{padded(tr(name), 9)} {sparkline(means, top)} {tr('peak')} {peak}"
    first, last = float(line["time_s"][0]), float(line["time_s"][-1])
    half = len(found.time) // 2
    yield f"{'':<9} {duration(first):<{half}}{duration(last):>{half}}"
    yield ""


def _wasted(run: Run) -> Iterator[str]:
    shares = {use: run.value(f"kv_{use}_share_mean") or 0.0 for use in WASTE}
    for use, share in sorted(shares.items(), key=lambda item: -item[1]):
        if share >= 0.05:
            size = gib(share / 100 * run.info.pool.capacity_bytes)
            look = USES[use]
            yield tr(
                "wasted: {share} % ({size}) {use}, {meaning}",
                share=f"{share:.1f}",
                size=size,
                use=tr(look.label),
                meaning=tr(look.meaning),
            )


def _slowest(run: Run) -> Iterator[str]:
    table = run.requests
    latency = table["finish_s"] - table["arrival_s"]
    known = np.flatnonzero(np.isfinite(latency))
    rows = known[np.argsort(-latency[known], kind="stable")][:SLOWEST]
    if not len(rows):
        return
    yield ""
    yield tr("slowest requests")
    widths = {"request id": 10, "arrival": 10, "prompt": 8, "output": 8, "TTFT": 9, "E2E": 9,
              "preemptions": 11}  # fmt: skip
    yield " ".join(padded(tr(head), width, right=True) for head, width in widths.items())
    arrival = table["arrival_s"][rows]
    times = (arrival, table["first_token_s"][rows] - arrival, latency[rows])
    shown = zip(*(durations(column.tolist()) for column in times), strict=True)
    for row, (arrived, first, whole) in zip(rows, shown, strict=True):
        yield (
            f"{int(table['request_id'][row]):>10} {arrived:>10} "
            f"{int(table['prompt_tokens'][row]):>8,} {int(table['output_tokens'][row]):>8,} "
            f"{first:>9} {whole:>9} {_preempted(run, int(row)):>11}"
        )


def _preempted(run: Run, row: int) -> str:
    """Times a request was; an engine that logged no steps doesn't say which requests were."""
    if run.info.kind == "measured" and not len(run.steps["start_s"]):
        return "–"
    return f"{int(optional(run, 'preemptions')[row]):,}"
