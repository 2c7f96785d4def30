"""Free blocks without contents, in the order in which they were let go."""

from collections import deque


class Blanks:
    """A queue of counts: when so many blocks were let go, as `PrefixCache.lettings` counts."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks  # all of them
        self._queue = deque([(0, blocks)])

    def add(self, since: int, count: int) -> None:
        """So many more, at least one; they will go last."""
        self._queue.append((since, count))
        self.blocks += count

    def since(self) -> int:
        """When those that go next were let go; there are some."""
        return self._queue[0][0]

    def take(self, most: int) -> int:
        """Those that go next, at most so many and all let go at once. Returns how many."""
        assert self.blocks, "blocks were taken that aren't there"
        since, there = self._queue.popleft()
        taken = min(there, most)
        if taken < there:
            self._queue.appendleft((since, there - taken))
        self.blocks -= taken
        return taken

    def clear(self) -> None:
        """All are taken."""
        self._queue.clear()
        self.blocks = 0

    def check_integrity(self) -> None:
        """Raise AssertionError where the counts contradict each other."""
        assert self.blocks == sum(count for _, count in self._queue)
        assert all(count > 0 for _, count in self._queue)
