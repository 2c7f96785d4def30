"""A prefix cache that tells what is done to it, so that pages behind its blocks can follow."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from sim.policy.counting.prefix_cache import Found, Hold, PrefixCache


class Event(NamedTuple):
    """What was done: blocks found and held, named up to a number, let go, or forgotten."""

    kind: Literal["pin", "publish", "unpin", "evict"]
    names: Sequence[tuple[int, int]]  # of the holder's blocks, as (name, blocks) in order
    blocks: int  # found, full, or evicted

    @property
    def request(self) -> int:
        """The holder: the last run of a chain is named after it (see `chain`)."""
        return self.names[-1][0] // 2


Events = list[Event]


class ToldCache(PrefixCache):
    """Tells all who listen. Each empties a list of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Events] = []

    def listen(self) -> Events:
        """What will be done from now on, in order."""
        events: Events = []
        self._listeners.append(events)
        return events

    def pin(self, chain: Sequence[tuple[int, int]], found: Found) -> Hold:
        hold = super().pin(chain, found)
        self._tell(Event("pin", hold.chain, hold.inside))
        return hold

    def publish(self, hold: Hold, full: int) -> int:
        self._tell(Event("publish", hold.chain, full))
        return super().publish(hold, full)

    def unpin(self, hold: Hold) -> int:
        self._tell(Event("unpin", hold.chain, 0))
        return super().unpin(hold)

    def evict(self, blocks: int) -> list[int]:
        self._tell(Event("evict", (), blocks))
        return super().evict(blocks)

    def _tell(self, event: Event) -> None:
        for events in self._listeners:
            events.append(event)
