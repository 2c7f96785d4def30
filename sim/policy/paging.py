"""Paging: fixed blocks on demand from one free pool (PagedAttention, Kwon et al., SOSP'23)."""

from dataclasses import dataclass

from sim.policy.base import Manager, Memory, Policy, Pool
from sim.sequence import Sequence
from workloads.errors import InputError


@dataclass(frozen=True)
class Paging(Policy):
    """Blocks of `block_size` tokens; only the last block of a sequence is partly empty.

    `watermark` is the share of blocks that admission (never growth) leaves free; vLLM V1 uses 0.
    `prefix_caching` lets requests with equal beginnings share blocks, where the trace names them.
    """

    block_size: int = 16
    watermark: float = 0.0
    prefix_caching: bool = False

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise InputError(f"paging: block_size={self.block_size}, expected at least 1")
        if not 0 <= self.watermark < 1:
            raise InputError(f"paging: watermark={self.watermark}, expected 0 <= watermark < 1")

    def manager(self, pool: Pool) -> "Pages":
        if self.prefix_caching:
            from sim.policy.shared_pages import SharedPages  # a kind of Pages, so it comes later

            return SharedPages(pool, self.block_size, self.watermark)
        return Pages(pool, self.block_size, self.watermark)


class Pages(Manager):
    """Counts of blocks. A histogram of lengths modulo the block size foretells growth.

    A decoding sequence of length L needs a block in the step that writes token L + 1 iff
    L % block_size == 0. With r = (stored - joined_tick) % block_size that is the case whenever
    (r + tick) % block_size == 0, so sequences can be counted by r and never touched again.
    """

    def __init__(self, pool: Pool, block_size: int, watermark: float = 0.0) -> None:
        super().__init__(pool)
        self.block_size = block_size
        self.block_bytes = block_size * pool.token_bytes
        self.blocks = pool.capacity_bytes // self.block_bytes
        if self.blocks == 0:
            raise InputError(
                f"paging: one block of {block_size} tokens takes {self.block_bytes} bytes, "
                f"but the KV budget is {pool.capacity_bytes}; expected a smaller block_size"
            )
        self.free = self.blocks
        self.kept_back = int(self.blocks * watermark)
        self._residues = [0] * block_size

    def longest(self) -> int:
        return self.blocks * self.block_size

    def can_admit(self, seq: Sequence) -> bool:
        need = -(-seq.target // self.block_size)
        keep = self.kept_back if self.free < self.blocks else 0
        return need <= self.free - keep

    def can_extend(self, seq: Sequence, tokens: int) -> bool:
        return -(-(seq.stored + tokens) // self.block_size) - seq.held <= self.free

    def extend(self, seq: Sequence, tokens: int) -> None:
        seq.stored += tokens
        self.prefilled += tokens
        need = -(-seq.stored // self.block_size)
        self.free -= need - seq.held
        seq.held = need

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        self._residues[(seq.stored - self.tick) % self.block_size] += 1

    def growable(self, limit: int) -> int:
        free, size, decoding = self.free, self.block_size, self.decoding
        if (limit // size + 1) * decoding <= free:
            return limit
        cycles = free // decoding  # in `size` steps each sequence takes exactly one block
        steps, free = cycles * size, free % decoding
        residues, slot = self._residues, -self.tick % size
        while steps < limit and residues[slot] <= free:
            free -= residues[slot]
            slot = slot - 1 if slot else size - 1
            steps += 1
        return min(steps, limit)

    def grow(self, steps: int) -> None:
        slot = -self.tick % self.block_size
        if steps == 1:
            self.free -= self._residues[slot]
        else:  # the residues that come due in the next ticks, going down
            cycles, rest = divmod(steps, self.block_size)
            low, high = slot + 1 - rest, slot + 1
            need = cycles * self.decoding + sum(self._residues[max(low, 0) : high])
            if low < 0:
                need += sum(self._residues[low:])
            self.free -= need
        super().grow(steps)

    def rest(self, seq: Sequence) -> None:
        self._residues[(seq.stored - seq.joined_tick) % self.block_size] -= 1
        super().rest(seq)
        seq.held = -(-seq.stored // self.block_size)

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        self.free += seq.held
        seq.held = 0

    def memory(self) -> Memory:
        return self._memory((self.context + self.prefilled) * self.pool.token_bytes)

    def _memory(self, live: int) -> Memory:
        """`live` bytes are in the used blocks."""
        used = (self.blocks - self.free) * self.block_bytes
        free = self.free * self.block_bytes
        remainder = self.pool.capacity_bytes - used - free  # less than a block
        return Memory(live, 0, used - live, remainder, 0, free)

    def check_integrity(self) -> None:
        super().check_integrity()
        assert 0 <= self.free <= self.blocks
        assert sum(self._residues) == self.decoding
        assert min(self._residues) >= 0
