"""What users, rates and pauses mean where a trace has sessions, said before a run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reports.language import tr

if TYPE_CHECKING:
    from sim.run.simulation import Setup


def session_notes(setup: "Setup") -> Iterator[str]:
    """One line for each option that turns of sessions don't follow. Nothing without sessions."""
    if setup.trace.turns is None:
        return
    if setup.request_rate is not None and setup.closed is None:
        yield tr(
            "--request-rate {rate}: sets the stamps that sessions begin at; turns wait for answers "
            "and keep their recorded pauses, so the rate may be another (--replay stamps keeps it)",
            rate=f"{setup.request_rate:g}",
        )
    if setup.closed is None:
        return
    if setup.closed.think_s:
        yield tr(
            "--think-time: users think before each session; within one, turns keep their recorded "
            "pauses"
        )
    else:
        yield tr(
            "{users} sessions at a time, with their recorded pauses between turns: while they "
            "pause fewer requests are in flight, and sub-agents may add some (--replay stamps "
            "--concurrency {users} keeps {users} requests in flight)",
            users=f"{setup.closed.users:,}",
        )
