"""Sums and extremes of a run's tables, in one pass over the requests and one over the events."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reports.files import MEMORY
from sim.engine.record import FINISHED, STATUSES, TRUNCATED, Log
from sim.run.tables import parts
from workloads.schema import total
from workloads.sums import pairwise_sum

USED = tuple(f"{name}_bytes" for name in MEMORY if name not in ("free", "external"))


@dataclass
class OfRequests:
    """Over all requests; tokens are whole numbers, times in seconds."""

    requests: int = 0
    by_status: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STATUSES), np.int64))
    cut_tokens: int = 0  # asked and not generated, of truncated ones
    generated_tokens: int = 0
    done_prompt_tokens: int = 0  # of finished and truncated ones
    admitted_prompt_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    preempted: int = 0  # requests
    recomputed_tokens: int = 0
    swapped_bytes: int = 0
    first_arrival_s: float = np.inf  # of those that came: in a closed loop not all do

    @property
    def done(self) -> int:
        """Finished and truncated requests."""
        return int(self.by_status[[FINISHED, TRUNCATED]].sum())


def of_requests(log: Log) -> OfRequests:
    """One pass."""
    sums = OfRequests()
    for (
        status, arrival_s, prompt, asked, got, scheduled_s, cached, preemptions, recomputed, swapped
    ) in parts(
        log.requests, "status", "arrival_s", "prompt_tokens", "output_tokens", "generated_tokens",
        "first_scheduled_s", "cached_tokens", "preemptions", "recomputed_tokens", "swapped_bytes",
    ):  # fmt: skip
        sums.requests += len(status)
        sums.by_status += np.bincount(status, minlength=len(STATUSES))
        sums.cut_tokens += total((asked - got)[status == TRUNCATED])
        sums.generated_tokens += int(got.sum())
        sums.done_prompt_tokens += int(prompt[(status == FINISHED) | (status == TRUNCATED)].sum())
        sums.admitted_prompt_tokens += int(prompt[~np.isnan(scheduled_s)].sum())
        sums.cached_tokens += int(cached.sum())
        sums.preemptions += int(preemptions.sum())
        sums.preempted += int((preemptions > 0).sum())
        sums.recomputed_tokens += int(recomputed.sum())
        sums.swapped_bytes += int(swapped.sum())
        came = arrival_s[~np.isnan(arrival_s)]
        sums.first_arrival_s = min(sums.first_arrival_s, float(came.min(initial=np.inf)))
    if sums.first_arrival_s == np.inf:
        sums.first_arrival_s = 0.0
    return sums


@dataclass
class OfSteps:
    """Over all events."""

    steps: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    running_peak: int = 0
    waiting_peak: int = 0
    used_peak_bytes: int = 0
    busy_s: float = 0.0


def of_steps(log: Log) -> OfSteps:
    """One pass, and one for the time."""
    sums, events = OfSteps(), 0
    for steps, prefilled, decodes, running, waiting, *used in parts(
        log.steps, "steps", "prefill_tokens", "decodes", "running", "waiting", *USED
    ):
        events += len(steps)
        sums.steps += int(steps.sum())
        sums.prefill_tokens += int(prefilled.sum())
        sums.decode_tokens += int((decodes * steps).sum())
        sums.running_peak = max(sums.running_peak, int(running.max(initial=0)))
        sums.waiting_peak = max(sums.waiting_peak, int(waiting.max(initial=0)))
        held = sum(used, start=np.zeros(len(steps), dtype=np.int64))
        sums.used_peak_bytes = max(sums.used_peak_bytes, int(held.max(initial=0)))
    sums.busy_s = pairwise_sum(
        events, (end - start for start, end in parts(log.steps, "start_s", "end_s"))
    )
    return sums
