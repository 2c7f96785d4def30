"""Virtual-memory contiguous: pages appear behind contiguous addresses as a sequence grows."""

from collections import Counter
from dataclasses import dataclass
from math import gcd
from typing import Any

from sim.policy.counting.periodic import Periodic
from sim.policy.counting.ring import Ring
from sim.policy.manager import Manager, Pool
from sim.policy.spec import Placement, Retained
from workloads.errors import InputError

PAGE_KIB = (64, 128, 256, 2048)


@dataclass(frozen=True)
class Virtual(Placement):
    """Physical pages of `page_kib` KiB mapped on demand, for each layer's K and V apart.

    Kernels see one contiguous buffer a sequence (Prabhu et al., vAttention, ASPLOS'25, whose
    driver maps 64, 128 and 256 KiB; CUDA's own least page is 2,048 KiB). The last page of each
    tensor is partly empty: 2 x layers of them a sequence.
    """

    page_kib: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.page_kib not in PAGE_KIB:
            known = ", ".join(map(str, PAGE_KIB))
            raise InputError(f"virtual: page_kib={self.page_kib}, expected one of {known}")

    def place(self, pool: Pool, retained: Retained) -> Manager:
        if retained.landmark_bytes:
            raise InputError(
                "virtual+top_k: pages hold no landmarks; expected mode=evict, which is simulated "
                "and not executed"
            )
        if retained.kept is None:
            return VirtualPages(pool, self.page_kib * 1024)
        manager = VirtualRings(pool, self.page_kib * 1024)
        manager.saturate(retained)
        return manager


class VirtualPages(Periodic):
    """Counts of physical pages. A tensor of v bytes a token holds ceil(length x v / page)."""

    def __init__(self, pool: Pool, page_bytes: int) -> None:
        self.page_bytes = page_bytes
        self.tensors = tensors(pool)
        self._vectors = list(self.tensors.items())
        pages = pool.capacity_bytes // page_bytes
        # page sizes are powers of two, so the largest of the tensors' periods is common to all
        period = max(page_bytes // gcd(page_bytes, vector) for vector in self.tensors)
        super().__init__(pool, period, pages)
        first = VirtualPages.units_for(self, 1)  # a ring's cap is not set yet
        if first > pages:
            raise InputError(
                f"virtual: the first token takes {first} pages of {page_bytes} bytes, "
                f"but the KV budget is {pool.capacity_bytes} bytes; expected a smaller page_kib"
            )
        need = [VirtualPages.units_for(self, tokens) for tokens in range(period + 1)]
        self._due = [(n, need[n + 1] - need[n]) for n in range(period) if need[n + 1] > need[n]]
        self._cycle = need[period]  # pages of one sequence in a period

    def units_for(self, tokens: int) -> int:
        units = 0
        for vector, count in self._vectors:
            units += count * -(-tokens * vector // self.page_bytes)
        return units

    def _step_need(self, tick: int) -> int:
        residues, period = self._residues, self.period
        need = 0
        for phase, pages in self._due:
            need += pages * residues[(phase - tick) % period]
        return need

    def growable(self, limit: int) -> int:
        free, filling = self.free, self.filling
        a_cycle = filling * self._cycle
        if (limit // self.period + 1) * a_cycle <= free:
            return limit
        cycles = free // a_cycle
        steps, free = cycles * self.period, free % a_cycle
        while steps < limit:
            free -= self._step_need(self.tick + steps)
            if free < 0:
                break
            steps += 1
        return min(steps, limit)

    def grow(self, steps: int) -> None:
        cycles, rest = divmod(steps, self.period)
        need = cycles * self.filling * self._cycle
        for step in range(rest):
            need += self._step_need(self.tick + step)
        self.free -= need
        super().grow(steps)

    def pieces(self) -> tuple[int, int]:
        return self.units, self.page_bytes

    def tally(self) -> tuple[int, int]:
        """Live tokens and free pages."""
        return self.live_tokens(), self.free

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        tokens, free = tally
        pool, page = self.pool, self.page_bytes
        internal = (self.units - free) * page - tokens * pool.token_bytes
        remainder = pool.capacity_bytes - self.units * page  # less than a page
        live, side = tokens * pool.payload_bytes, tokens * pool.side_bytes
        return live, 0, internal, remainder, side, free * page, 0


class VirtualRings(Ring, VirtualPages):
    """A ring of pages per sequence and tensor."""


def tensors(pool: Pool) -> Counter[int]:
    """How many tensors (K or V of a layer) there are of each size a token, in bytes."""
    if not pool.groups:
        raise InputError("virtual: expected a pool that knows the model's layers")
    found: Counter[int] = Counter()
    for group, stored in zip(pool.groups, pool.stored, strict=True):
        for vector in (stored.key, stored.value):
            if vector:
                found[vector] += group.layers
    return found
