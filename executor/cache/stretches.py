"""Contexts one behind another, in as many slots as they have tokens: as tight as can be."""

from collections.abc import Sequence

from executor.cache.contiguous import Contiguous
from executor.work import Work


class Stretches(Contiguous):
    """For steps that no manager decides, over slots of which managers cut buffers of any length.

    So many sequences sit here as any manager could seat. A sequence doesn't grow, and nobody's room
    is used again before all have left.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots, 1)
        self._end = 0
        self._held: dict[int, int] = {}

    def units_for(self, tokens: int) -> int:
        return tokens

    def fits(self, lengths: Sequence[int]) -> bool:
        return sum(lengths) <= self.units

    def synthetic(self) -> "Stretches":
        return Stretches(self.units)

    def held_bytes(self, token_bytes: int) -> int:
        return sum(self._held.values()) * token_bytes

    def follow(self, work: Work) -> None:
        for request in work.released:
            del self._held[request]
            self.owned.pop(request)
        if not self._held:
            self._end = 0
        lengths = dict(work.decodes)
        lengths |= {chunk.request: chunk.start + chunk.tokens for chunk in work.chunks}
        for request, length in lengths.items():
            if request not in self._held:
                self._held[request] = length
                self.owned.append(request, [self._end])
                self._end += length
            assert length <= self._held[request], "a stretch doesn't grow"
        assert self._end <= self.units, "no room is left"
