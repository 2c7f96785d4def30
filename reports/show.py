"""One run on a terminal: its verdict, sparklines, where memory was wasted, the slowest requests."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.bands import spans
from reports.formats import duration, gib
from reports.language import tr
from reports.load import Run, optional
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
    for name, values, scale, unit in (
        ("running", line["running"], 1, ""),
        ("waiting", line["waiting"], 1, ""),
        ("KV taken", 100 * used / run.info.pool.capacity_bytes, 1, " %"),
    ):
        means = found.mean(values)
        top = 100.0 if unit else float(values.max())
        peak = f"{float(values.max()) * scale:,.0f}{unit}"
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
    for row in rows:
        first = table["first_token_s"][row] - table["arrival_s"][row]
        yield (
            f"{int(table['request_id'][row]):>10} {duration(float(table['arrival_s'][row])):>10} "
            f"{int(table['prompt_tokens'][row]):>8,} {int(table['output_tokens'][row]):>8,} "
            f"{duration(float(first)):>9} {duration(float(latency[row])):>9} "
            f"{_preempted(run, int(row)):>11}"
        )


def _preempted(run: Run, row: int) -> str:
    """Times a request was; an engine that logged no steps doesn't say which requests were."""
    if run.info.kind == "measured" and not len(run.steps["start_s"]):
        return "–"
    return f"{int(optional(run, 'preemptions')[row]):,}"
