"""A buddy allocator: blocks of powers of two, split on demand and merged when both halves are free.

Knowlton, "A fast storage allocator" (CACM 1965); what Kwon et al. (SOSP'23) give their Orca
baselines.
"""

from bisect import bisect_left, insort


class Buddy:
    """An address space of `slots` (any number) from 0, cut into aligned blocks of 2^order slots.

    Deterministic: of the smallest blocks that fit, the one at the lowest address is taken.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.free = 0  # slots in free blocks
        self._free: list[list[int]] = [[] for _ in range(slots.bit_length())]  # sorted, by order
        self._taken: dict[int, int] = {}  # address -> order
        for order in reversed(range(slots.bit_length())):  # the largest blocks come first
            if slots >> order & 1:
                self._put(self.free, order)

    def fits(self, size: int) -> bool:
        """Whether a block of at least `size` slots (1 or more) is free."""
        return any(self._free[order_of(size) :])

    def usable(self, size: int) -> int:
        """Free slots in blocks where `size` slots fit."""
        first = order_of(size)
        return sum([len(blocks) << first + i for i, blocks in enumerate(self._free[first:])])

    def largest(self) -> int:
        """The largest size that fits into an empty arena."""
        return 1 << self.slots.bit_length() - 1 if self.slots else 0

    def take(self, size: int) -> int:
        """Address of a block of at least `size` slots, which must fit."""
        wanted = order = order_of(size)
        while not self._free[order]:
            order += 1
        address = self._free[order].pop(0)
        self.free -= 1 << order
        while order > wanted:  # the upper halves stay free
            order -= 1
            self._put(address + (1 << order), order)
        self._taken[address] = order
        return address

    def give(self, address: int) -> None:
        """Free the block that was taken at that address."""
        order = self._taken.pop(address)
        while order + 1 < len(self._free):
            blocks, buddy = self._free[order], address ^ 1 << order
            i = bisect_left(blocks, buddy)
            if i == len(blocks) or blocks[i] != buddy:
                break
            del blocks[i]
            self.free -= 1 << order
            address &= buddy
            order += 1
        self._put(address, order)

    def _put(self, address: int, order: int) -> None:
        insort(self._free[order], address)
        self.free += 1 << order

    def check_integrity(self) -> None:
        """Raise AssertionError unless the blocks tile the arena, aligned, with no pair unmerged."""
        listed = [(address, k) for k, blocks in enumerate(self._free) for address in blocks]
        end = 0
        for address, order in sorted([*listed, *self._taken.items()]):
            assert address == end, (address, end)
            assert not address & (1 << order) - 1, (address, order)
            end += 1 << order
        assert end == self.slots
        assert self.free == sum(1 << order for _, order in listed)
        free = set(listed)
        assert not any((address ^ 1 << order, order) in free for address, order in listed)


def order_of(size: int) -> int:
    """The order of the smallest block that holds `size` slots."""
    return (size - 1).bit_length()
