"""Layers that keep different tokens: block tables with windows, over one pool of pages."""

from collections.abc import Iterator, Sequence

from executor.cache.paged import Paged
from executor.cache.seats import Units
from executor.cache.table import Place, Run, Table, View
from executor.work import Work
from sim.model.layers import LayerGroup
from sim.policy.counting.block_pool import Block
from sim.policy.group_pages import GroupPages
from sim.policy.group_tables import Kind
from sim.policy.layer_groups import UnifiedPages

NONE = -1  # in a block table: a page that was given back, or never taken


class BlockTable(Paged):
    """Pages of the layers of one group, in order; `NONE` outside of their windows.

    Slots of such positions are negative: nothing is stored there.
    """


class Unified(Paged):
    """One block table for all layers, of which windowed ones read the end."""

    def __init__(self, manager: UnifiedPages) -> None:
        super().__init__(manager.blocks, manager.block_size)
        self._manager = manager
        groups = manager.pool.groups
        windows = [group.window or 0 for group in groups]
        self.views = tuple(View(self, window) for window in dict.fromkeys(windows))
        self._view_of = [list(dict.fromkeys(windows)).index(window) for window in windows]
        self._layers = [group.layers for group in groups]

    def place(self, group: int, number: int) -> Place:
        return Place(self._view_of[group], None)

    def read_tokens(self, length: int, token_bytes: int) -> int:
        return mean_read(self._manager.pool.groups, length)

    def synthetic(self) -> Table:
        return Unified(self._manager)


class Grouped(Paged):
    """A block table for each group of equally many layers. A page holds a block of one of them.

    Follows the rules of vLLM's hybrid KV cache manager on its own: what left its window is given
    back when the next step of its sequence is planned. As a table it is its first block table.
    """

    def __init__(self, manager: GroupPages) -> None:
        super().__init__(manager.blocks, manager.kinds[0].size)
        assert len({kind.size for kind in manager.kinds}) == 1, "layers of unequal bytes a token"
        self._manager = manager
        self._kinds = {kind.place: kind for kind in manager.kinds}
        self._first: dict[int, int] = {}  # of a group's block tables
        views: list[View] = []
        self._kind_of: list[Kind] = []
        for kind in manager.kinds:
            self._first[kind.place] = len(views)
            for _ in range(kind.tables):
                views.append(View(BlockTable(0, kind.size), kind.window or 0))
                self._kind_of.append(kind)
        self.views = tuple(views)
        self.owned = views[0].table.owned
        self._in_flight = manager.pool.in_flight_tokens
        self._gone: dict[int, list[int]] = {}  # of a request, by view: pages that are behind it

    def place(self, group: int, number: int) -> Place:
        table, place = divmod(number, self._manager.layers_a_page)
        return Place(self._first[group] + table, place)

    def units_for(self, tokens: int) -> int:
        """At most, at any length up to that."""
        return self._manager.most(tokens)

    def moving(self, request: int, length: int) -> list[Run | Units]:
        found: list[Run | Units] = []
        for (table, _), kind in zip(self.views, self._kind_of, strict=True):
            last = table.units_for(length)
            found.append(table.owned[request][kind.skipped(length) : last])
        return found

    def units_there(self, part: int, length: int, found: int) -> int:
        return max(0, found // self.unit_slots - self._kind_of[part].skipped(length))

    def kept_tokens(self, length: int) -> int:
        longest = max(view.window or length for view in self.views)
        return min(length, longest)

    @property
    def cap(self) -> int | None:
        windows = [view.window for view in self.views]
        return max(windows) if all(windows) else None

    def read_tokens(self, length: int, token_bytes: int) -> int:
        return mean_read(self._manager.pool.groups, length)

    def held_bytes(self, token_bytes: int) -> int:
        return (self.units - len(self._free)) * self._manager.page_bytes

    def synthetic(self) -> Table:
        return Grouped(self._manager)

    def follow(self, work: Work) -> None:
        for request in work.released:
            del self._gone[request]
            for table, _ in self.views:
                self._free += [page for page in reversed(table.owned.pop(request)) if page != NONE]
        wanted = list(self._wanted(work))
        for request, computed, _ in wanted:
            self._give_back(request, computed)
        for request, _, end in wanted:
            self._take(request, end)

    def _wanted(self, work: Work) -> Iterator[tuple[int, int, int]]:
        """Of each request of the step: tokens computed for good, and up to where it needs room."""
        for request, length in work.decodes:
            yield request, length - 1, length
        for chunk in work.chunks:
            end = chunk.start + chunk.tokens
            # Without a known size of chunks windows move with each token (see GroupPages).
            yield chunk.request, chunk.start if self._in_flight else max(chunk.start, end - 1), end

    def _give_back(self, request: int, computed: int) -> None:
        gone = self._gone.setdefault(request, [0] * len(self.views))
        for i, (kind, (table, _)) in enumerate(zip(self._kind_of, self.views, strict=True)):
            skip = kind.skipped(computed)
            if skip > gone[i]:
                if request in table.owned:
                    left = table.owned[request][gone[i] : skip]
                    self._free += [page for page in reversed(left.tolist()) if page != NONE]
                    left[:] = NONE
                gone[i] = skip

    def _take(self, request: int, end: int) -> None:
        for i, (table, _) in enumerate(self.views):
            there = table.owned.count(request)
            count = -(-end // self.unit_slots) - there
            if count > 0:
                never = max(0, min(count, self._gone[request][i] - there))
                pages = [self._free.pop() for _ in range(count - never)]
                table.owned.append(request, [NONE] * never + pages)

    def _check_ids(self) -> None:
        taken = [
            page
            for table, _ in self.views
            for pages in table.owned.lists().values()
            for page in pages
            if page != NONE
        ]
        assert sorted([*taken, *self._free]) == list(range(self.units))


class SharedGroups(Grouped):
    """With prefix caching: which blocks are found, kept and forgotten the manager says; a block is
    one page from when it is first held until nobody can find it any more."""

    def __init__(self, manager: GroupPages) -> None:
        super().__init__(manager)
        self._page_of: dict[Block, int] = {}

    def held_bytes(self, token_bytes: int) -> int:
        return len(self._owned_pages()) * self._manager.page_bytes

    def follow(self, work: Work) -> None:
        for request in work.released:
            for table, _ in self.views:
                table.owned.pop(request)
        for request in (*(d.request for d in work.decodes), *(c.request for c in work.chunks)):
            held = self._manager.held_by(request)
            tables = [table for kind in held.tables for table in kind]
            gone = [held.gone[i] for i, kind in enumerate(held.tables) for _ in kind]
            for blocks, skip, (table, _) in zip(tables, gone, self.views, strict=True):
                there = table.owned.count(request)
                pages = [self._page(block) for block in blocks[there:]]
                if pages or not there:
                    table.owned.append(request, pages)
                table.owned[request][:skip] = NONE

    def _page(self, block: Block | None) -> int:
        if block is None:
            return NONE
        if block not in self._page_of:
            if not self._free:
                gone = [one for one in self._page_of if not self._manager.cache.keeps(one)]
                self._free += [self._page_of.pop(one) for one in reversed(gone)]
            self._page_of[block] = self._free.pop()
        return self._page_of[block]

    def _owned_pages(self) -> set[int]:
        owned = [
            page for view in self.views for p in view.table.owned.lists().values() for page in p
        ]
        return set(owned) - {NONE}

    def _check_ids(self) -> None:
        held = {page for block, page in self._page_of.items() if block.refs}
        assert held == self._owned_pages()
        assert sorted([*self._page_of.values(), *self._free]) == list(range(self.units))


def mean_read(groups: Sequence[LayerGroup], length: int) -> int:
    """Keys that a query at the end of such a context reads, on average over layers."""
    layers = sum(group.layers for group in groups)
    return round(sum(group.layers * group.kept(length) for group in groups) / layers)
