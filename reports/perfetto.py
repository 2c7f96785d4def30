"""A run as a trace for ui.perfetto.dev: a track of engine steps, one a request, and counters.

The format is Chrome's Trace Event JSON, which Perfetto opens: times in microseconds, "X" for a span
on a track, "b" and "e" for the ends of an asynchronous one, "C" for counters, "M" for names.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from reports.formats import GIB
from reports.load import Run

PHASES = ("queued", "prefill", "decode")

Event = dict[str, Any]


def perfetto(runs: Sequence[Run]) -> str:
    """Strict JSON; a process a run."""
    events = [event for i, run in enumerate(runs, 1) for event in _run(run, i)]
    return json.dumps(
        {"displayTimeUnit": "ms", "traceEvents": events},
        allow_nan=False,
        separators=(",", ":"),
        ensure_ascii=False,
    )


def _run(run: Run, process: int) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": run.label}}
    yield {"ph": "M", "name": "thread_name", "pid": process, "tid": 1,
           "args": {"name": "engine steps"}}  # fmt: skip
    steps = run.steps
    for start, end, prefill in zip(
        _us(steps["start_s"]), _us(steps["end_s"]), steps["prefill_tokens"].tolist(), strict=True
    ):
        name = "with prefill" if prefill else "decode"
        yield {"ph": "X", "name": name, "pid": process, "tid": 1, "ts": start, "dur": end - start,
               "args": {"prefill_tokens": prefill}}  # fmt: skip
    yield from _requests(run, process)
    line = run.timeline
    taken = run.info.pool.capacity_bytes - line["free_bytes"]
    for at, running, waiting, held in zip(
        _us(line["time_s"]), line["running"].tolist(), line["waiting"].tolist(), taken.tolist(),
        strict=True,
    ):  # fmt: skip
        yield {"ph": "C", "name": "requests", "pid": process, "ts": at,
               "args": {"running": running, "waiting": waiting}}  # fmt: skip
        yield {"ph": "C", "name": "KV taken (GiB)", "pid": process, "ts": at,
               "args": {"taken": round(held / GIB, 6)}}  # fmt: skip


def _requests(run: Run, process: int) -> Iterator[Event]:
    table = run.requests
    stamps = [_us(table[name]) for name in
              ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")]  # fmt: skip
    for row, (id, prompt, output) in enumerate(
        zip(
            table["request_id"].tolist(),
            table["prompt_tokens"].tolist(),
            table["output_tokens"].tolist(),
            strict=True,
        )
    ):
        times = [stamp[row] for stamp in stamps]
        shown = {"prompt_tokens": prompt, "output_tokens": output}
        for name, (start, end) in zip(PHASES, pairwise(times), strict=True):
            if start is None or end is None:
                continue
            span = {"cat": "request", "name": name, "pid": process, "tid": 2, "id": id}
            yield {"ph": "b", "ts": start, **span, "args": shown}
            yield {"ph": "e", "ts": end, **span}


def _us(seconds: "np.ndarray[Any, Any]") -> list[Any]:
    """Microseconds, to the nanosecond; None where there is no time."""
    micro = np.round(np.asarray(seconds, np.float64) * 1e6, 3)
    return [None if np.isnan(value) else float(value) for value in micro]
