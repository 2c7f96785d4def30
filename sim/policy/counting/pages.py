"""Counts of blocks: what paging, chunks and shared prefixes manage."""

from typing import Any

from sim.policy.counting.periodic import Periodic
from sim.policy.manager import Pool
from sim.policy.spec import Retained
from sim.sequence import Sequence
from workloads.errors import InputError


class Pages(Periodic):
    """Counts of blocks, each with the landmarks of its tokens, if there are any."""

    def __init__(
        self,
        pool: Pool,
        block_size: int,
        watermark: float = 0.0,
        retained: Retained | None = None,
        name: str = "paging",
    ) -> None:
        self.block_size = block_size
        retained = retained or Retained()
        self.landmark_bytes = retained.landmark_bytes * (block_size // retained.page)
        self.block_bytes = block_size * pool.token_bytes + self.landmark_bytes
        self.blocks = pool.capacity_bytes // self.block_bytes
        if self.blocks == 0:
            raise InputError(
                f"{name}: one block of {block_size} tokens takes {self.block_bytes} bytes, "
                f"but the KV budget is {pool.capacity_bytes}; expected "
                f"smaller {'chunk_tokens' if name == 'chunked' else 'block_size'}"
            )
        super().__init__(
            pool, block_size, self.blocks, int((self.blocks + pool.null_blocks) * watermark)
        )

    def longest(self) -> int:
        return self.blocks * self.block_size

    def units_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def extend(self, seq: Sequence, tokens: int) -> None:
        # here and below the base's few lines are written out: this is every run's hot path
        size = self.block_size
        seq.stored = stored = seq.stored + tokens
        self.prefilled += tokens
        need = -(-stored // size) if stored < self.fills_below else self.units_for(stored)
        self.free -= need - seq.held
        seq.held = need

    def join(self, seq: Sequence) -> None:
        stored, tick = seq.stored, self.tick
        seq.joined_tick = tick
        self.prefilled -= stored
        self.context += stored
        self.decoding += 1
        if stored < self.fills_below:
            self._residues[(stored - tick) % self.block_size] += 1
            self.filling += 1

    def growable(self, limit: int) -> int:
        free, size, filling = self.free, self.block_size, self.filling
        # No step takes more than a block a sequence, nor `size` steps; ask for the sum at need.
        if (limit // size + 1) * filling <= free or self._units_due(limit) <= free:
            return limit
        cycles = free // filling  # in `size` steps each sequence takes exactly one block
        steps, free = cycles * size, free % filling
        residues, slot = self._residues, -self.tick % size
        while steps < limit and residues[slot] <= free:
            free -= residues[slot]
            slot = slot - 1 if slot else size - 1
            steps += 1
        return min(steps, limit)

    def grow(self, steps: int) -> None:
        if steps == 1:
            self.free -= self._residues[-self.tick % self.block_size]
        else:
            self.free -= self._units_due(steps)
        self.tick += steps
        self.context += steps * self.decoding

    def _units_due(self, steps: int) -> int:
        """Blocks that the decoding sequences take in their next steps."""
        slot = -self.tick % self.block_size
        cycles, rest = divmod(steps, self.block_size)
        low, high = slot + 1 - rest, slot + 1  # residues come due going down
        need = cycles * self.filling + sum(self._residues[max(low, 0) : high])
        return (
            need + sum(self._residues[self.block_size + low : self.block_size]) if low < 0 else need
        )

    def rest(self, seq: Sequence) -> None:
        stored, joined, size = seq.stored, seq.joined_tick, self.block_size
        seq.stored = grown = stored + self.tick - joined
        seq.joined_tick = -1
        self.decoding -= 1
        self.context -= grown
        self.prefilled += grown
        if grown < self.fills_below:
            self._residues[(stored - joined) % size] -= 1
            self.filling -= 1
            seq.held = -(-grown // size)
        else:
            seq.held = self.units_for(grown)

    def pieces(self) -> tuple[int, int]:
        return self.blocks, self.block_bytes

    def transfer_bytes(self, tokens: int) -> int:
        return -(-tokens // self.block_size) * self.block_bytes  # blocks move whole

    def tally(self) -> tuple[int, ...]:
        """Live tokens, free blocks, and those of them with contents."""
        return self.live_tokens(), self.free, 0

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        tokens, free, cached = tally
        pool, size = self.pool, self.block_bytes
        live = tokens * pool.payload_bytes
        used = self.blocks - free
        metadata = tokens * pool.side_bytes + used * self.landmark_bytes
        internal = used * size - live - metadata
        remainder = pool.capacity_bytes - self.blocks * size  # less than a block
        return live, 0, internal, remainder, metadata, free * size, cached * size
