"""Paging with prefix caching: blocks of equal names are one page, by id."""

from collections.abc import Callable, Sequence

from executor.cache.paged import Paged
from executor.cache.table import Table
from executor.work import Work
from sim.policy.counting.prefix_cache import Hold, PrefixCache

Names = Sequence[tuple[int, int]]
"""Of a request's full blocks, as (name, blocks) in order."""


class Shared(Paged):
    """Pages behind the runs of a prefix cache of its own, which follows the manager's.

    Pages of runs that nobody holds keep their contents and count as free; they go when no page
    without contents is left.
    """

    def __init__(self, units: int, unit_slots: int, names: Callable[[int], Names]) -> None:
        super().__init__(units, unit_slots)
        self._names = names
        self._cache = PrefixCache()
        self._holds: dict[int, Hold] = {}
        self._stored: dict[int, int] = {}  # tokens
        self._pages: dict[int, list[int]] = {}  # of each run, by its name

    def synthetic(self) -> Table:
        return Paged(self.units, self.unit_slots)

    def held_bytes(self, token_bytes: int) -> int:
        held = self.units - len(self._free) - self._cache.idle_blocks
        return held * self.unit_slots * token_bytes

    def follow(self, work: Work) -> None:
        """In the manager's order: it names a chunk's blocks before it takes room for them."""
        for request in work.released:
            self._release(request)
        for request, length in work.decodes:
            self._hold(request, length)
        for chunk in work.chunks:
            request, stop = chunk.request, chunk.start + chunk.tokens
            if request not in self.owned:
                self._admit(request, chunk.start)
            self._cache.publish(self._holds[request], stop // self.unit_slots)
            self._hold(request, stop)
            self._attach(request)

    def _admit(self, request: int, found: int) -> None:
        names = self._names(request)
        runs = self._cache.match(names, found // self.unit_slots)
        owned: list[int] = []
        for run, blocks in runs:
            pages = self._pages[run.key]
            owned += pages[:blocks]
            if not run.refs:  # what nobody holds beyond them is forgotten
                self._free.extend(reversed(pages[blocks:]))
                del pages[blocks:]
        assert len(owned) * self.unit_slots == found, "the manager found other blocks"
        self._holds[request] = self._cache.pin(names, runs)
        self.owned[request] = owned

    def _hold(self, request: int, tokens: int) -> None:
        while len(self._free) < self.units_for(tokens) - len(self.owned[request]):
            oldest = self._cache.oldest()
            self._free.append(self._pages[oldest].pop())
            self._cache.evict(1)
        super()._hold(request, tokens)
        self._stored[request] = tokens

    def _attach(self, request: int) -> None:
        """Blocks of the request that were named just now are its pages."""
        hold, start = self._holds[request], 0
        pinned = {run.key: run for run in hold.pinned}
        for key, blocks in hold.chain:
            if key in pinned:
                pages = self._pages.setdefault(key, [])
                pages += self.owned[request][start + len(pages) : start + pinned[key].blocks]
            start += blocks

    def _release(self, request: int) -> None:
        self._cache.publish(self._holds[request], self._stored.pop(request) // self.unit_slots)
        self._attach(request)
        hold = self._holds.pop(request)
        named = {page for run in hold.pinned for page in self._pages[run.key]}
        owned = self.owned.pop(request)
        self._free.extend(page for page in reversed(owned) if page not in named)
        self._cache.unpin(hold)

    def _check_ids(self) -> None:
        used = {page for pages in self.owned.values() for page in pages}
        used |= {page for pages in self._pages.values() for page in pages}
        assert sorted([*used, *self._free]) == list(range(self.units))
        self._cache.check_integrity()
