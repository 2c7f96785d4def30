"""How often a run is sampled, so that short and long ones have about as many samples."""

from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np

from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S, StepPlan
from sim.run.seam import told_by
from workloads.schema import total
from workloads.spool import slices

if TYPE_CHECKING:
    from sim.run.simulation import Setup

SAMPLES_A_RUN = 2000
SHORTEST_S = 1e-3


def sample_interval(setup: "Setup") -> float:
    """A round number of seconds (1, 2 or 5 times a power of ten) for about 2,000 samples.

    A run lasts at least until its last arrival (of a closed loop: as long as its users would take
    if nobody hindered another), and as long as its longest output takes alone, but
    not beyond the horizon. Only what will be served counts: neither requests that are refused nor
    tokens that are cut make a run longer. Raises InputError where the policy can't hold a token.
    """
    manager = setup.manager()
    with told_by(setup.policy, setup.label):
        longest = Scheduler(manager, setup.limits).longest_total
    trace = setup.trace
    served = output = most = 0
    latest_s = 0.0
    for rows in slices(trace):
        room = longest - trace.prompt_tokens[rows]
        fits = room > 0
        if fits.any():
            outputs = np.minimum(trace.output_tokens[rows], room)[fits]
            served += len(outputs)
            output += total(outputs)
            most = max(most, int(outputs.max()))
            latest_s = max(latest_s, float(trace.arrival_s[rows][fits].max()))
    wanted = SHORTEST_S
    if served:
        lone, _, _ = setup.cost().linear(StepPlan(0, 1, 1, 1, 0, 0, 0, (), (), (), ()))
        if setup.closed is None:
            asked_s = latest_s
        else:  # what each user's share takes alone, thinking included
            each_s = setup.closed.think_s + output / served * lone / AS_PER_S
            asked_s = each_s * served / setup.closed.users
        span = max(asked_s, most * lone / AS_PER_S)
        if setup.horizon_s is not None:
            span = min(span, setup.horizon_s)
        wanted = max(span / SAMPLES_A_RUN, SHORTEST_S)
    power = 10.0 ** floor(log10(wanted))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= wanted)
