"""What binds, and how far a service level is from breaking: an answer in words."""

from typing import Any

import numpy as np

from sim.run.seam import told_by
from sim.run.service_level import parse_level
from sim.run.simulation import Setup
from sim.sequence import Sequence
from sim.sweep.evaluate import Row

NEARLY = 0.98
"""Of a limit; the rest is how requests fall."""

FAR_PCT = 50
"""Of a limit used: below it no resource has brought the level near to breaking."""


def margin(row: Row, slo: str) -> str:
    """How much of its limit the tightest bound takes."""
    bounds = parse_level(slo).bounds
    shares = [
        (row[f"slo_{bound.name}"] / 1e3 / bound.limit_s, bound)
        for bound in bounds
        if row.get(f"slo_{bound.name}") is not None
    ]
    share, bound = max(shares, key=lambda pair: pair[0])
    value_s = share * bound.limit_s
    return (
        f"{bound.text} is tightest: {value_s:.3g} s of {bound.limit_s:g} s, "
        f"{100 * (1 - share):.0f} % from breaking"
    )


def broken(row: Row, slo: str) -> str:
    """Which bound breaks there."""
    if row.get("lost_bound") is not None:
        return f"{row['lost_bound']} is lost for certain after {row['lost_at_s']:,.3g} s"
    for bound in parse_level(slo).bounds:
        value = row.get(f"slo_{bound.name}")
        if value is None:
            return (
                f"{bound.text} is infinite: of {row['requests']:,} requests {row['refused']:,} are "
                f"refused and {row['unfinished']:,} unfinished"
            )
        if value / 1e3 > bound.limit_s:
            return f"{bound.text} is {value / 1e3:.3g} s of {bound.limit_s:g} s"
    return "nothing"


def binding(row: Row, setup: Setup) -> str:
    """The resource that runs out first, by a run's metrics: memory, places in the batch, or time.

    Far from breaking none has run out. KV memory binds where it makes requests wait or be computed
    again; the batch where its limit is reached; else steps take as long as they take.
    """
    share = _number(row, "slo_used_share")
    if share < FAR_PCT:
        return f"nothing but the level itself, {100 - share:.0f} % from breaking here"
    limit = setup.limits.max_num_seqs
    used = _number(row, "kv_used_peak_bytes") / setup.pool.capacity_bytes
    if preempted := _number(row, "num_preemptions"):
        return f"KV memory: {preempted:,.0f} preemption{'s' if preempted > 1 else ''}"
    if _number(row, "running_peak") >= limit:
        return f"--max-num-seqs {limit}: the batch is full at its peak"
    if used >= NEARLY:
        return f"KV memory: {100 * used:.0f} % of it at the peak"
    holes = _number(row, "kv_external_share_mean") / 100
    if (1 - used - holes) * setup.pool.capacity_bytes < _another_bytes(setup):
        return f"KV memory: {100 * used:.0f} % of it at the peak, too little left for one more"
    busy = _number(row, "busy_share")
    return (
        f"step time: the GPU is busy {busy:.0f} % of the time, at most "
        f"{_number(row, 'running_peak'):,.0f} requests run at once, {100 * used:.0f} % of the KV "
        "budget at the peak"
    )


def _another_bytes(setup: Setup) -> int:
    """What a request of the trace's median lengths takes as its prompt is computed: a buffer for
    the longest context under `preallocation`, blocks for its prompt under `paging`."""
    prompt, output = (
        int(np.median(column)) for column in (setup.trace.prompt_tokens, setup.trace.output_tokens)
    )
    manager = setup.manager()
    request = Sequence(0, 0, prompt=prompt, output=output)
    with told_by(setup.policy, setup.label):
        if prompt > manager.longest() or not manager.can_admit(request):
            return 0
        free = manager.memory().free
        manager.admit(request)
        if manager.can_extend(request, prompt):
            manager.extend(request, prompt)
        return free - manager.memory().free


def _number(row: Row, name: str) -> float:
    value: Any = row.get(name)
    return float(value or 0)
