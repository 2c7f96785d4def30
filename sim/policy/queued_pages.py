"""Prefix caching as vLLM had it before blocks without contents were used first."""

from sim.policy.counting.blanks import Blanks
from sim.policy.manager import Pool
from sim.policy.shared_pages import SharedPages
from sim.sequence import Sequence


class QueuedPages(SharedPages):
    """Free blocks are used again in the order in which they were let go, with contents or without.

    As in vLLM 0.19 (v1/core/block_pool.py, free_blocks: all go to the end of one queue). Of one
    holder tail before head, so that its last, partial block is the first of its own.
    """

    def __init__(self, pool: Pool, block_size: int, watermark: float = 0.0) -> None:
        super().__init__(pool, block_size, watermark)
        self.blanks = Blanks(self.blocks)

    def release(self, seq: Sequence) -> None:
        before, idle = self.free, self.cache.idle_blocks
        super().release(seq)
        blank = self.free - before - (self.cache.idle_blocks - idle)
        if blank:
            self.blanks.add(self.cache.lettings, blank)

    def strain(self, seq: Sequence | None = None) -> None:
        super().strain(seq)
        if seq is None:  # those before the one that found no block took all that were free
            self.blanks.clear()

    def _reuse(self) -> None:
        """Blocks were taken, those first that were let go first."""
        cache, blanks = self.cache, self.blanks
        # free is below 0 where more was taken than there is: check_integrity tells
        short = cache.idle_blocks + blanks.blocks - max(0, self.free)
        while short > 0:
            if not cache.idle_blocks:
                short -= blanks.take(short)
                continue
            since, there = cache.next_to_go()
            if blanks.blocks and blanks.since() <= since:
                short -= blanks.take(short)
            else:
                taken = min(there, short)
                cache.evict(taken)
                short -= taken

    def check_integrity(self) -> None:
        super().check_integrity()
        self.blanks.check_integrity()
        assert self.blanks.blocks + self.cache.idle_blocks == self.free
