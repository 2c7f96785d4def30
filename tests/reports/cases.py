"""Small run folders whose outcome is arithmetic: k servers, evenly spaced arrivals, equal work.

Request i arrives at i ÷ rate, starts as soon as one of the servers is free (a request at a time
each), has its first token after TTFT_S and its last after the service time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.reports.synthetic import CAPACITY, MAX_LEN, Spec, step_rows, write_tables

TTFT_S = 0.1
SAMPLES = 400


@dataclass(frozen=True)
class Case:
    """`arrivals_s` in place of even ones; memory as mean shares of the budget, the rest free."""

    name: str = "paging:block_size=16"
    requests: int = 100
    rate: float = 1.0
    servers: int = 1
    service_s: float = 2.0
    arrivals_s: tuple[float, ...] = ()
    prompt: int = 100
    cut_prompt: int = 100  # of those refused or truncated
    output: int = 11
    refused: int = 0  # so many of the first are refused
    truncated: int = 0  # so many of the first get half of their output
    unfinished: int = 0  # so many of the last never start
    internal: float = 0.1
    limitation: str | None = None
    kind: str = "simulated"


def write_case(folder: Path, case: Case, **changes: Any) -> Path:
    """A run folder as `kvtwin simulate` writes it; `changes` replace parts of run.json."""
    requests = request_rows(case)
    timeline = timeline_rows(case, requests)
    spec = Spec(case.name, case.servers, "block", case.requests, case.rate, kind=case.kind,
                limitation=case.limitation)  # fmt: skip
    return write_tables(folder, spec, requests, timeline, step_rows(timeline), changes)


def request_rows(case: Case) -> dict[str, Any]:
    n = case.requests
    arrival = np.array(case.arrivals_s) if case.arrivals_s else np.arange(n) / case.rate
    start, first, finish = (np.full(n, np.nan) for _ in range(3))
    free_at = np.zeros(case.servers)
    for i in range(case.refused, n - case.unfinished):
        server = free_at.argmin()
        start[i] = max(arrival[i], free_at[server])
        first[i] = start[i] + TTFT_S
        finish[i] = free_at[server] = start[i] + case.service_s
    position = np.arange(n)
    status = np.zeros(n, np.int64)
    status[position < case.truncated] = 1
    status[position < case.refused] = 2
    status[position >= n - case.unfinished] = 3
    generated = np.where(status == 1, case.output // 2, case.output)
    return {
        "request_id": position,
        "arrival_s": arrival,
        "prompt_tokens": np.where((status == 1) | (status == 2), case.cut_prompt, case.prompt),
        "output_tokens": np.full(n, case.output),
        "status": status,
        "first_scheduled_s": start,
        "first_token_s": first,
        "finish_s": finish,
        "generated_tokens": np.where(status >= 2, 0, generated),
        "preemptions": np.zeros(n, np.int64),
        "recomputed_tokens": np.zeros(n, np.int64),
        "cached_tokens": np.zeros(n, np.int64),
    }


def timeline_rows(case: Case, requests: dict[str, Any]) -> dict[str, Any]:
    finish = requests["finish_s"][np.isfinite(requests["finish_s"])]
    time = np.linspace(0, finish.max() if len(finish) else 0.0, SAMPLES)
    start, end = requests["first_scheduled_s"][:, None], requests["finish_s"][:, None]
    running = ((start <= time) & (time < end)).sum(0)
    waiting = ((requests["arrival_s"][:, None] <= time) & (time < start)).sum(0)
    share = {"live": 0.1, "reserved": 0.0, "internal": case.internal, "external": 0.0,
             "metadata": 0.0}  # fmt: skip
    columns = {"time_s": time, "running": running, "waiting": waiting}
    held = {use: np.full(len(time), int(part * CAPACITY)) for use, part in share.items()}
    held["free"] = CAPACITY - np.sum([*held.values()], axis=0)
    return columns | {f"{use}_bytes": values.astype(np.int64) for use, values in held.items()}


TOO_LONG = MAX_LEN - 5
"""A prompt after which an output of 11 exceeds the longest context."""
