"""Prefix caching as vLLM had it before blocks without contents were used first."""

from collections import deque

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
        self._blank = deque([(0, self.blocks)])  # when they were let go, and how many
        self._blanks = self.blocks

    def release(self, seq: Sequence) -> None:
        before, idle = self.free, self.cache.idle_blocks
        super().release(seq)
        blank = self.free - before - (self.cache.idle_blocks - idle)
        if blank:
            self._blank.append((self.cache.lettings, blank))
            self._blanks += blank

    def strain(self, seq: Sequence | None = None) -> None:
        super().strain(seq)
        if seq is None:  # those before the one that found no block took all that were free
            self._blank.clear()
            self._blanks = 0

    def _reuse(self) -> None:
        """Blocks were taken, those first that were let go first."""
        cache, queue = self.cache, self._blank
        # free is below 0 where more was taken than there is: check_integrity tells
        short = cache.idle_blocks + self._blanks - max(0, self.free)
        while short > 0:
            since, there = cache.next_to_go() if cache.idle_blocks else (cache.lettings + 1, 0)
            if queue and queue[0][0] <= since:
                at, there = queue.popleft()
                taken = min(there, short)
                self._blanks -= taken
                if taken < there:
                    queue.appendleft((at, there - taken))
            else:
                taken = min(there, short)
                cache.evict(taken)
            short -= taken

    def check_integrity(self) -> None:
        super().check_integrity()
        assert self._blanks == sum(count for _, count in self._blank)
        assert self._blanks + self.cache.idle_blocks == self.free
