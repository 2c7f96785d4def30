"""Paging with prefix caching: blocks of equal names are one page, by id."""

from executor.cache.paged import Paged
from executor.cache.table import Table
from executor.cache.told import Event, ToldCache
from executor.work import Work
from sim.policy.counting.prefix_cache import Hold, PrefixCache
from sim.policy.shared_pages import SharedPages


class Shared(Paged):
    """Pages behind the blocks of a prefix cache of its own, to which all is done that the manager
    does to its cache, in the same order: so both find, keep and forget the same copies.

    A plan doesn't tell that order, and forgetting shows in none: where no block was left for a
    decode, the manager's decodes before it took all that had contents (vLLM). Pages of blocks that
    nobody holds keep their contents and count as free.
    """

    def __init__(self, manager: SharedPages) -> None:
        super().__init__(manager.blocks, manager.block_size)
        if not isinstance(manager.cache, ToldCache):
            used = manager.cache.idle_blocks + manager.cache.pinned_blocks
            assert not used, "a table follows its manager from the start"
            manager.cache = ToldCache()
        self._events = manager.cache.listen()
        self.cache = PrefixCache()
        self._holds: dict[int, Hold] = {}
        self._found: dict[int, int] = {}  # blocks, of those whose pages are still to be looked up

    def synthetic(self) -> Table:
        return Paged(self.units, self.unit_slots)

    def held_bytes(self, token_bytes: int) -> int:
        held = self.units - len(self._free) - self.cache.idle_pages()
        return held * self.unit_slots * token_bytes

    def follow(self, work: Work) -> None:
        """First what became of blocks, then pages for those that the step writes."""
        for event in self._events:
            self._do(event)
        self._events.clear()
        for request, length in work.decodes:
            self._hold(request, length)
        for chunk in work.chunks:
            if chunk.request in self._found:
                self._admit(chunk.request, self._found.pop(chunk.request))
            self._hold(chunk.request, chunk.start + chunk.tokens)
            self._attach(chunk.request)

    def _do(self, event: Event) -> None:
        kind, names, blocks = event
        if kind == "evict":
            self._free.extend(self.cache.evict(blocks))
        elif kind == "pin":
            hold = self.cache.pin(names, self.cache.match(names, blocks))
            assert hold.inside == blocks, "the manager found other blocks"
            self._holds[event.request] = hold
            self._found[event.request] = blocks
        elif kind == "publish":
            self.cache.publish(self._holds[event.request], blocks)
        else:
            self._release(event.request)

    def _admit(self, request: int, found: int) -> None:
        """Own the pages of the blocks that were found. One that was named for a request which gave
        way before it could write has none yet."""
        start, pages = 0, list[int]()
        for piece in self._holds[request].pieces:
            blocks = min(piece.end - piece.start, found - start)
            piece.pages += [self._free.pop() for _ in range(blocks - len(piece.pages))]
            pages += piece.pages[: max(0, blocks)]
            start += piece.end - piece.start
        self.owned.append(request, pages)

    def _attach(self, request: int) -> None:
        """Blocks of the request that were named just now are its pages."""
        start, owned = 0, self.owned[request]
        for piece in self._holds[request].pieces:
            blocks = piece.end - piece.start
            piece.pages += owned[start + len(piece.pages) : start + blocks].tolist()
            start += blocks

    def _release(self, request: int) -> None:
        self._found.pop(request, None)
        if request in self.owned:  # else it came and went while one step was planned
            self._attach(request)
        hold = self._holds.pop(request)
        if request in self.owned:
            self._free.extend(reversed(self.owned.pop(request)[hold.inside :]))
        self.cache.unpin(hold)

    def _check_ids(self) -> None:
        used = {page for pages in self.owned.lists().values() for page in pages}
        used |= self.cache.pages()
        assert sorted([*used, *self._free]) == list(range(self.units))
        self.cache.check_integrity()
