"""Blocks one by one, as vLLM's pool has them: who holds each, what it is called, who goes next.

For tables whose blocks leave a window at different times, where a count doesn't tell which of them
are still to be found. What can be counted in runs is (`prefix_cache`).
"""

from collections import OrderedDict
from collections.abc import Iterable

Name = tuple[int, int, int]
"""Of a block's contents: the table, the run's name, the block in the run."""


class Block:
    """A page that is held, or that nobody holds but whose contents may still be found."""

    __slots__ = ("name", "refs", "use")

    def __init__(self, use: int) -> None:
        self.use = use  # index of the counter in which it is counted while held
        self.refs = 1
        self.name: Name | None = None


class BlockPool:
    """The order of reuse is vLLM 0.32's (v1/core/block_pool.py, free_blocks and get_new_blocks).

    Blocks without contents are used first, then those with contents in the order in which they were
    let go. Of several blocks with equal contents the one named first is found.
    """

    def __init__(self, blocks: int, uses: int) -> None:
        self.blocks = blocks
        self.blank = blocks  # free ones without contents
        self.held = [0] * uses  # distinct ones
        self._idle: OrderedDict[Block, None] = OrderedDict()  # the next to go comes first
        self._named: dict[Name, list[Block]] = {}

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return self.blank + len(self._idle)

    @property
    def idle(self) -> int:
        """Those of them with contents."""
        return len(self._idle)

    def find(self, name: Name) -> Block | None:
        """A block with these contents."""
        copies = self._named.get(name)
        return copies[0] if copies else None

    def keeps(self, block: Block) -> bool:
        """Whether it is held, or its contents may still be found."""
        return block.refs > 0 or block in self._idle

    def name(self, block: Block, name: Name) -> None:
        """The block is full, and has these contents."""
        block.name = name
        self._named.setdefault(name, []).append(block)

    def take(self, count: int, use: int) -> list[Block]:
        """So many blocks, of which there must be enough; contents they had are forgotten."""
        short = count - self.blank
        if short > 0:
            self.evict(short)
        self.blank -= count
        assert self.blank >= 0, "blocks were taken that aren't there"
        self.held[use] += count
        return [Block(use) for _ in range(count)]

    def evict(self, blocks: int) -> None:
        """Forget the contents of those that go next."""
        for _ in range(blocks):
            block, _ = self._idle.popitem(last=False)
            assert block.name is not None
            copies = self._named[block.name]
            copies.remove(block)
            if not copies:
                del self._named[block.name]
        self.blank += blocks

    def touch(self, block: Block) -> None:
        """One more holder."""
        if not block.refs:
            del self._idle[block]
            self.held[block.use] += 1
        block.refs += 1

    def let_go(self, blocks: Iterable[Block]) -> None:
        """One holder less each; the first of them will be used first."""
        for block in blocks:
            block.refs -= 1
            if block.refs:
                continue
            self.held[block.use] -= 1
            if block.name is None:
                self.blank += 1
            else:
                self._idle[block] = None

    def check_integrity(self) -> None:
        """Raise AssertionError where counts differ."""
        assert self.free + sum(self.held) == self.blocks
        named = [block for copies in self._named.values() for block in copies]
        assert set(self._idle) == {block for block in named if not block.refs}
