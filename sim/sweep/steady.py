"""Whether a run's traffic lasts long enough to tell how a load is served for good."""

import numpy as np

from reports.service import BEHIND, HANDFUL
from sim.engine.record import REFUSED
from sim.run.simulation import Run

SEVERAL = 3
"""Times its slow requests' lives that traffic has to last: else the last come before the first
have gone, and the batch never fills as it would."""


def unsteady(run: Run) -> str | None:
    """Why an open loop's run tells no steady load, in words; None where it does.

    Behind is what reports call so (`reports.service`): more than 2 % of all requests wait, and a
    handful, and more of them as the last request comes than after three quarters of the time.
    """
    if run.setup.closed is not None:
        return None
    table = run.log.requests
    kept = (table["status"] != REFUSED) & ~np.isnan(table["arrival_s"])
    arrival, start, finish = (
        table[name][kept] for name in ("arrival_s", "first_scheduled_s", "finish_s")
    )
    if not len(arrival):
        return None
    span_s = float(np.ptp(arrival))
    reasons = []
    order = np.argsort(arrival, kind="stable")
    ahead = np.searchsorted(np.sort(start), arrival[order], side="right")
    ahead -= start[order] <= arrival[order]  # itself
    waiting = np.arange(len(order)) - ahead
    late = np.searchsorted(arrival[order][:-1], arrival.min() + 0.75 * span_s)
    if waiting[-1] > max(HANDFUL, BEHIND * len(order)) and waiting[-1] > waiting[late]:
        reasons.append(f"the queue still grows as arrivals end, with {waiting[-1]:,} waiting")
    lives = (finish - arrival)[~np.isnan(finish)]
    if len(lives) and span_s < SEVERAL * (p99 := float(np.percentile(lives, 99))):
        reasons.append(f"{SEVERAL} times the E2E p99 would be {SEVERAL * p99:,.3g} s")
    if not reasons:
        return None
    return f"{span_s:,.3g} s of arrivals are too short to tell: {'; '.join(reasons)}"
