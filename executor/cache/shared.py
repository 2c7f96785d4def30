"""Paging with prefix caching: blocks of equal names are one page, by id."""

from collections.abc import Callable, Sequence

from executor.cache.paged import Paged
from executor.cache.table import Table
from executor.work import Work
from sim.policy.counting.prefix_cache import Hold, PrefixCache

Names = Sequence[tuple[int, int]]
"""Of a request's full blocks, as (name, blocks) in order."""


class Shared(Paged):
    """Pages behind the blocks of a prefix cache of its own, which follows the manager's.

    Pages of blocks that nobody holds keep their contents and count as free; they go when no page
    without contents is left.
    """

    def __init__(self, units: int, unit_slots: int, names: Callable[[int], Names]) -> None:
        super().__init__(units, unit_slots)
        self._names = names
        self._cache = PrefixCache()
        self._holds: dict[int, Hold] = {}
        self._stored: dict[int, int] = {}  # tokens

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
        returned = dict(work.swapped_in)
        for chunk in work.chunks:
            request, stop = chunk.request, chunk.start + chunk.tokens
            if request not in self.owned:
                self._admit(request, returned.get(request, chunk.start))
            self._cache.publish(self._holds[request], stop // self.unit_slots)
            self._hold(request, stop)
            self._attach(request)

    def _admit(self, request: int, found: int) -> None:
        names = self._names(request)
        hold = self._cache.pin(names, self._cache.match(names, found // self.unit_slots))
        assert hold.inside * self.unit_slots == found, "the manager found other blocks"
        self._holds[request] = hold
        self.owned.append(request, [page for piece in hold.pieces for page in piece.pages])

    def _hold(self, request: int, tokens: int) -> None:
        short = self.units_for(tokens) - self.owned.count(request) - len(self._free)
        if short > 0:
            self._free.extend(self._cache.evict(short))
        super()._hold(request, tokens)
        self._stored[request] = tokens

    def _attach(self, request: int) -> None:
        """Blocks of the request that were named just now are its pages."""
        start, owned = 0, self.owned[request]
        for piece in self._holds[request].pieces:
            blocks = piece.end - piece.start
            piece.pages += owned[start + len(piece.pages) : start + blocks].tolist()
            start += blocks

    def _release(self, request: int) -> None:
        hold = self._holds[request]
        self._cache.publish(hold, self._stored.pop(request) // self.unit_slots)
        self._attach(request)
        del self._holds[request]
        self._free.extend(reversed(self.owned.pop(request)[hold.inside :]))
        self._cache.unpin(hold)

    def _check_ids(self) -> None:
        used = {page for pages in self.owned.lists().values() for page in pages}
        used |= self._cache.pages()
        assert sorted([*used, *self._free]) == list(range(self.units))
        self._cache.check_integrity()
