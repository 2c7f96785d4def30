"""Who serves a request: routers in front of independent replicas.

A router knows what its choice needs and no more: how many requests each replica has not answered,
where sessions went, which blocks were sent where. None draws at random, so choices repeat.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from sim.sequence import Sequence as Request
from workloads.errors import InputError
from workloads.schema import Trace

RouterName = Literal["round-robin", "least-loaded", "session", "prefix"]

IMBALANCE = 32
"""Requests by which loads may differ before the prefix router looks at loads alone. SGLang's router
has such a threshold, too."""


class Router(Protocol):
    """Chooses a replica for each request, in order of arrival."""

    def __call__(self, request: Request, loads: Sequence[int]) -> int:
        """`loads`: requests that each replica was given and has not answered."""


def make_router(name: str, trace: Trace) -> Router:
    """The router of that name. Raises InputError where the trace lacks what it goes by."""
    if name == "session" and trace.turns is None:
        raise InputError(f"--router session: {trace.name} has no sessions, expected another router")
    if name == "prefix" and trace.prefix is None:
        raise InputError(f"--router prefix: {trace.name} names no blocks, expected another router")
    routers: dict[str, Callable[[Trace], Router]] = {
        "round-robin": lambda trace: _RoundRobin(),
        "least-loaded": lambda trace: _least_loaded,
        "session": _Sticky,
        "prefix": lambda trace: _Prefix(),
    }
    return routers[name](trace)


class _RoundRobin:
    """One after the other, whatever their loads."""

    def __init__(self) -> None:
        self._turn = -1

    def __call__(self, request: Request, loads: Sequence[int]) -> int:
        self._turn = (self._turn + 1) % len(loads)
        return self._turn


def _least_loaded(request: Request, loads: Sequence[int]) -> int:
    """The fewest unanswered requests; of equals the first."""
    return min(range(len(loads)), key=loads.__getitem__)


class _Sticky:
    """A session stays where its first request went, which was the least loaded replica."""

    def __init__(self, trace: Trace) -> None:
        assert trace.turns is not None, "a trace with sessions"
        self._sessions = trace.turns.session.tolist()
        self._places: dict[int, int] = {}

    def __call__(self, request: Request, loads: Sequence[int]) -> int:
        session = self._sessions[request.index]
        if session not in self._places:
            self._places[session] = _least_loaded(request, loads)
        return self._places[session]


class _Prefix:
    """Where most of the prompt's leading blocks were sent before, unless loads differ too much.

    It doesn't know what a replica has evicted since, as routers in front of engines don't.
    """

    def __init__(self) -> None:
        self._sent: list[set[int]] = []

    def __call__(self, request: Request, loads: Sequence[int]) -> int:
        if not self._sent:
            self._sent = [set() for _ in loads]
        _, blocks = request.prefix or (0, [])
        place = _least_loaded(request, loads)
        if max(loads) - min(loads) <= IMBALANCE:
            known = [_leading(blocks, sent) for sent in self._sent]
            if max(known):
                place = min(range(len(loads)), key=lambda i: (-known[i], loads[i]))
        self._sent[place].update(blocks)
        return place


def _leading(blocks: Sequence[int], sent: set[int]) -> int:
    """How many of the first blocks in a row were sent."""
    return next((n for n, block in enumerate(blocks) if block not in sent), len(blocks))
