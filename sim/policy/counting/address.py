"""Address spaces that buffers are cut from: first fit and buddy. Holes emerge, none is assumed."""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort


class AddressSpace(ABC):
    """Units 0 to size - 1. Buffers are contiguous and never move."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.lost = 0  # units that rounding takes beyond what was asked for

    @abstractmethod
    def largest(self) -> int:
        """Units of the largest buffer that fits now."""

    @abstractmethod
    def allocate(self, units: int) -> int | None:
        """The address of a new buffer; None, and nothing changed, if no hole is large enough."""

    @abstractmethod
    def release(self, address: int, units: int) -> None:
        """Give back a buffer, of as many units as were asked for."""

    @abstractmethod
    def holes(self) -> list[tuple[int, int]]:
        """Free (address, units) in order of address."""

    @abstractmethod
    def copy(self) -> "AddressSpace":
        """The same state, independent of this one."""

    @abstractmethod
    def taken(self, units: int) -> int:
        """Units that a buffer of so many takes, rounding included."""

    def served(self, need: int) -> int:
        """Free units in holes where buffers of `need` units would fit."""
        return sum([units for _, units in self.holes() if units >= need])


class FirstFit(AddressSpace):
    """The lowest hole that is large enough; neighbouring holes merge (Knuth, TAOCP 1, 2.5)."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._holes = [(0, size)] if size else []

    def largest(self) -> int:
        return max([units for _, units in self._holes], default=0)

    def served(self, need: int) -> int:
        # the base's words without a copy of the list: this is asked in every event
        return sum([units for _, units in self._holes if units >= need])

    def allocate(self, units: int) -> int | None:
        for index, (address, size) in enumerate(self._holes):
            if size >= units:
                if size == units:
                    del self._holes[index]
                else:
                    self._holes[index] = (address + units, size - units)
                return address
        return None

    def release(self, address: int, units: int) -> None:
        holes = self._holes
        index = bisect_left(holes, (address, 0))
        if index < len(holes) and holes[index][0] == address + units:
            units += holes.pop(index)[1]
        if index and sum(holes[index - 1]) == address:
            address, before = holes.pop(index - 1)
            units += before
        insort(holes, (address, units))

    def holes(self) -> list[tuple[int, int]]:
        return list(self._holes)

    def copy(self) -> "FirstFit":
        other = FirstFit(self.size)
        other._holes = list(self._holes)
        return other

    def taken(self, units: int) -> int:
        return units


class Buddy(AddressSpace):
    """Powers of two, split in halves and merged with their other half (Knowlton, CACM 1965).

    A size that isn't a power of two is cut into the powers of its binary digits, largest first,
    which stay apart. The lowest address of the smallest sufficient power is taken.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._free: list[list[int]] = [[] for _ in range(size.bit_length())]
        address = 0
        for order in reversed(range(size.bit_length())):
            if size >> order & 1:
                self._free[order].append(address)
                address += 1 << order

    def largest(self) -> int:
        return max((1 << order for order, free in enumerate(self._free) if free), default=0)

    def allocate(self, units: int) -> int | None:
        order = _order(units)
        found = next((o for o in range(order, len(self._free)) if self._free[o]), None)
        if found is None:
            return None
        address = self._free[found].pop(0)
        while found > order:  # the upper half stays free
            found -= 1
            insort(self._free[found], address + (1 << found))
        self.lost += (1 << order) - units
        return address

    def release(self, address: int, units: int) -> None:
        order = _order(units)
        self.lost -= (1 << order) - units
        while order + 1 < len(self._free):
            free, buddy = self._free[order], address ^ (1 << order)
            index = bisect_left(free, buddy)
            if index == len(free) or free[index] != buddy:
                break
            del free[index]
            address = min(address, buddy)
            order += 1
        insort(self._free[order], address)

    def holes(self) -> list[tuple[int, int]]:
        return sorted((a, 1 << order) for order, free in enumerate(self._free) for a in free)

    def copy(self) -> "Buddy":
        other = Buddy(0)
        other.size, other.lost = self.size, self.lost
        other._free = [list(free) for free in self._free]
        return other

    def taken(self, units: int) -> int:
        return 1 << _order(units)


def _order(units: int) -> int:
    """The exponent of the least power of two that holds so many units."""
    return (units - 1).bit_length()


def address_space(allocator: str, size: int) -> AddressSpace:
    """An empty space of that many units."""
    return Buddy(size) if allocator == "buddy" else FirstFit(size)
