"""Buffers of unequal size: addresses come from the manager, whose address space is real."""

from executor.cache.contiguous import Contiguous
from executor.cache.ring import Ring
from executor.cache.stretches import Stretches
from executor.cache.table import Move, Table
from executor.work import Work
from sim.policy.counting import buffers
from sim.policy.manager import Manager


class Buffers(Contiguous):
    """A unit is a slot; a request owns the first one of its buffer and as many as the manager says.

    Where a buffer was replaced by a larger one, its contents are moved before the step, and the old
    one counts until the next.
    """

    def __init__(self, manager: buffers.Contiguous, ring: Ring | None) -> None:
        super().__init__(manager.space.size, 1, ring)
        self._manager = manager
        self._held: dict[int, buffers.Buffer] = {}
        self._left_slots = 0

    def synthetic(self) -> Table:
        """Buffers are as long as they have to be: of short contexts more fit than of the longest.

        A ring's are all as long as the ring.
        """
        if self.ring is None:
            return Stretches(self.units)
        longest = min(self._manager.pool.max_len, self._manager.limit)
        return Contiguous(self.units // longest, longest, self.ring)

    def held_bytes(self, token_bytes: int) -> int:
        slots = sum(buffer.slots for buffer in self._held.values())
        return (slots + self._left_slots) * token_bytes

    def follow(self, work: Work) -> None:
        self.moves, self._left_slots = [], 0
        for request in work.released:
            del self._held[request]
            self.owned.pop(request)
        lengths = dict(work.decodes)
        lengths |= {chunk.request: chunk.start + chunk.tokens for chunk in work.chunks}
        for request, length in lengths.items():
            buffer = self._manager.buffers[request]
            assert self.kept_tokens(length) <= buffer.slots
            before = self._held.get(request, buffer)
            if before != buffer:
                self.moves.append(Move(before.address, buffer.address, before.slots))
                self._left_slots += before.slots
            if self._held.get(request) != buffer:
                if request in self.owned:
                    self.owned.pop(request)
                self.owned.append(request, [buffer.address])
                self._held[request] = buffer

    def check(self, manager: Manager) -> None:
        super().check(manager)
        manager.check_integrity()

    def _check_ids(self) -> None:
        spans = sorted((buffer.address, buffer.slots) for buffer in self._held.values())
        end = 0
        for address, slots in spans:
            assert end <= address, "buffers overlap"
            end = address + slots
        assert end <= self.units
