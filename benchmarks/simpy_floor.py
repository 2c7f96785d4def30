"""SimPy alone: a process that does nothing but wait, an event at a time."""

from collections.abc import Generator

import simpy


def wait_for(events: int) -> None:
    """So many timeouts, one after another, on the same clock of attoseconds."""
    environment = simpy.Environment(initial_time=0)
    environment.process(_waits(environment, events))
    environment.run()


def _waits(environment: simpy.Environment, events: int) -> Generator[simpy.Event, None, None]:
    timeout = environment.timeout
    for _ in range(events):
        yield timeout(7 * 10**15)
