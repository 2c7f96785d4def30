"""Closed loops: users ask as they are answered, so nothing is offered that a run keeps up with."""

from reports.formats import counted, duration, rate_per_s
from reports.language import tr
from reports.load import Run
from reports.run_json import ClosedLoop


def loop(run: Run) -> ClosedLoop | None:
    """Who asks; None where requests come at stamps, be it held back to so many in flight."""
    found = run.info.closed_loop
    return None if found is None or found.paced else found


def alone(run: Run, found: ClosedLoop) -> str:
    """The headline of one run."""
    return tr(
        "{label} answers {users}, with one request or session each at a time: {served} requests/s "
        "served.",
        label=run.label,
        users=counted(found.users, "user"),
        served=rate_per_s(run.value("request_throughput") or 0.0),
    )


def against(best: Run, slowest: Run, found: ClosedLoop) -> str:
    """The headline over several policies."""
    return tr(
        "{label} answers {users} soonest, in {mean} on average against {longest} with {slowest}: "
        "{served} requests/s served.",
        label=best.label,
        users=counted(found.users, "user"),
        mean=_mean(best),
        longest=_mean(slowest),
        slowest=slowest.label,
        served=rate_per_s(best.value("request_throughput") or 0.0),
    )


def _mean(run: Run) -> str:
    value = run.value("e2el_ms_mean")
    return "–" if value is None else duration(value / 1000)
