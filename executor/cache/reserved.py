"""Address space that is reserved, and gets memory page by page (Linux).

Nothing is in memory that was not touched, so to commit is to touch, and to give back is to tell the
system that contents are not needed. Huge pages are off: a touched page must not bring others along.
"""

import ctypes
import mmap
from collections.abc import Iterator

import numpy as np
import torch

from executor.cache.virtual import Virtual
from executor.kernels.pool import KVPool, Storage

MAP_NORESERVE = 0x4000  # Python's module has no name for it

TYPES: dict[Storage, dict[int, torch.dtype]] = {
    "native": {2: torch.bfloat16, 4: torch.float32},
    "fp8": {1: torch.float8_e4m3fn},
}


class Reserved:
    """All tensors of a cache, [tensors, seats, tokens, kv_heads, head_dim], without memory yet."""

    def __init__(self, table: Virtual) -> None:
        self._page = table.page_bytes
        seat_bytes = table.unit_slots * table.vector_bytes
        size = table.tensors * table.units * seat_bytes
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        self._map = mmap.mmap(-1, size, flags=flags)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self._size, self._seat_bytes, self._vector = size, seat_bytes, table.vector_bytes
        self._first = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        shape = (table.tensors, table.units, seat_bytes // self._page, self._page)
        self._pages = np.frombuffer(self._map, dtype=np.uint8).reshape(shape)
        self._starts = [i * table.units * seat_bytes for i in range(table.tensors)]
        self._slots, self._most = table.units * table.unit_slots, table.page_count

    def commit(self, seat: int, first: int, last: int) -> None:
        self._pages[:, seat, first:last, :: mmap.PAGESIZE] = 0

    def give_back(self, seat: int, last: int) -> None:
        if last:
            for start in self._starts:
                at = start + seat * self._seat_bytes
                self._map.madvise(mmap.MADV_DONTNEED, at, last * self._page)

    def clear(self) -> None:
        """Nothing is in memory."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def resident_bytes(self) -> int:
        """By mincore(2)."""
        pages = -(-self._size // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * pages)()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mincore(ctypes.c_void_p(self._first), ctypes.c_size_t(self._size), found):
            raise OSError(ctypes.get_errno(), "mincore")
        return (
            int(np.count_nonzero(np.frombuffer(bytes(found), dtype=np.uint8) & 1)) * mmap.PAGESIZE
        )

    def filled_bytes(self) -> int:
        """What is resident with as many pages committed as there may be; all are given back."""
        every = self._pages.reshape(-1, self._page)
        assert self._most <= len(every)
        every[: self._most, :: mmap.PAGESIZE] = 0
        resident = self.resident_bytes()
        self.clear()
        return resident

    def pools(self, kv_heads: int, head_dim: int, storage: Storage) -> Iterator[KVPool]:
        """Each layer's, of one page: tokens lie one after another, all heads of each together."""
        kind = TYPES[storage][self._vector // (kv_heads * head_dim)]
        whole = torch.frombuffer(self._map, dtype=torch.uint8).view(kind)
        data = whole.view(-1, self._slots, kv_heads, head_dim).transpose(1, 2)
        side = torch.ones(kv_heads, 2) if storage == "fp8" else None
        for i in range(0, len(data), 2):
            yield KVPool(data[i : i + 1], data[i + 1 : i + 2], head_dim, storage, side)
