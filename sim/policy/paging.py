"""Paging: fixed blocks on demand from one free pool (PagedAttention, Kwon et al., SOSP'23)."""

from dataclasses import dataclass

from sim.plan import from_fields
from sim.policy.base import Manager, Memory, Policy, Pool
from sim.sequence import Sequence
from workloads.errors import InputError

make_memory = from_fields(Memory)


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
        self.token_bytes = pool.token_bytes
        self._paged_bytes = self.blocks * self.block_bytes
        self._remainder_bytes = pool.capacity_bytes - self._paged_bytes  # less than a block
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
        seq.stored = stored = seq.stored + tokens
        self.prefilled += tokens
        need = -(-stored // self.block_size)
        self.free -= need - seq.held
        seq.held = need

    def join(self, seq: Sequence) -> None:
        stored, tick = seq.stored, self.tick
        seq.joined_tick = tick
        self.prefilled -= stored
        self.context += stored
        self.decoding += 1
        self._residues[(stored - tick) % self.block_size] += 1

    def growable(self, limit: int) -> int:
        free, size, decoding = self.free, self.block_size, self.decoding
        # No step takes more than a block a sequence, nor `size` steps; ask for the sum at need.
        if (limit // size + 1) * decoding <= free or self._need(limit) <= free:
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
        self.free -= self._need(steps)
        self.tick += steps
        self.context += steps * self.decoding

    def _need(self, steps: int) -> int:
        """Blocks that the decoding sequences take in their next steps."""
        slot = -self.tick % self.block_size
        if steps == 1:
            return self._residues[slot]
        cycles, rest = divmod(steps, self.block_size)
        low, high = slot + 1 - rest, slot + 1  # residues come due going down
        need = cycles * self.decoding + sum(self._residues[max(low, 0) : high])
        return need + sum(self._residues[low:]) if low < 0 else need

    def rest(self, seq: Sequence) -> None:
        stored, joined = seq.stored, seq.joined_tick
        self._residues[(stored - joined) % self.block_size] -= 1
        seq.stored = stored = stored + self.tick - joined
        seq.joined_tick = -1
        self.decoding -= 1
        self.context -= stored
        self.prefilled += stored
        seq.held = -(-seq.stored // self.block_size)

    def release(self, seq: Sequence) -> None:
        if seq.joined_tick >= 0:
            self.rest(seq)
        self.prefilled -= seq.stored
        self.free += seq.held
        seq.held = 0

    def transfer_bytes(self, tokens: int) -> int:
        return -(-tokens // self.block_size) * self.block_bytes  # blocks move whole

    def memory(self) -> Memory:
        return self._memory((self.context + self.prefilled) * self.token_bytes)

    def _memory(self, live: int) -> Memory:
        """`live` bytes are in the used blocks."""
        free = self.free * self.block_bytes
        internal = self._paged_bytes - free - live
        return make_memory((live, 0, internal, self._remainder_bytes, 0, free))

    def check_integrity(self) -> None:
        super().check_integrity()
        assert 0 <= self.free <= self.blocks
        assert sum(self._residues) == self.decoding
        assert min(self._residues) >= 0
