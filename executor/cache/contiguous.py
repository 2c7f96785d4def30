"""Contiguous preallocation: one slab a request, all slabs one pool of a single page."""

from executor.cache.table import Run, Slots, Table


class Contiguous(Table):
    """A sequence's places are slots in a row."""

    paged = False

    def units_for(self, tokens: int) -> int:
        return 1

    def start(self, request: int) -> int:
        """First slot of the request."""
        return self.owned[request][0] * self.unit_slots

    def kept(self, request: int, length: int) -> Run:
        start = self.start(request)
        return Run(start, start + self.kept_tokens(length))

    def _at(self, request: int, places: Slots) -> Slots:
        return places + self.start(request)
