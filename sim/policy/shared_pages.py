"""Paging with prefix caching: requests with equal beginnings share blocks (vLLM V1)."""

from sys import maxsize

from sim.policy.counting.pages import Pages
from sim.policy.counting.prefix_cache import Found, Hold, PrefixCache
from sim.policy.manager import Pool
from sim.sequence import Sequence


class SharedPages(Pages):
    """Pages whose full blocks are named, shared while held, and kept until they are reused.

    As in vLLM V1 a block is found from the step that computes it on, generated tokens' blocks are
    kept too (a request preempted finds its own), and the last token of a prompt is always computed.
    Free blocks without contents are used before any with contents (vLLM 0.32).

    `free` includes blocks that nobody holds but that keep their contents; see `cached_bytes`.
    """

    def __init__(self, pool: Pool, block_size: int, watermark: float = 0.0) -> None:
        super().__init__(pool, block_size, watermark)
        self.cache = PrefixCache()
        self._holds: dict[int, Hold] = {}
        self._inside = 0  # full blocks of all holders, shared ones counted for each

    def can_admit(self, seq: Sequence) -> bool:
        need = -(-seq.target // self.block_size)
        keep = self.kept_back if self.free < self.blocks else 0
        # blocks found that nobody holds are free, so that taking them counts like taking any
        return need - self.cache.held_blocks(self._match(seq)) <= self.free - keep

    def found(self, seq: Sequence) -> int:
        return self.cache.blocks(self._match(seq)) * self.block_size

    def admit(self, seq: Sequence) -> None:
        found = self._match(seq)
        assert seq.chain is not None
        self.free -= self.cache.blocks(found) - self.cache.held_blocks(found)
        hold = self.cache.pin(seq.chain, found)
        self._holds[seq.index] = hold
        self._inside += hold.inside
        seq.held = hold.inside
        seq.stored = hold.inside * self.block_size
        self.prefilled += seq.stored

    def extend(self, seq: Sequence, tokens: int) -> None:
        super().extend(seq, tokens)
        full = seq.stored // self.block_size
        self._inside += self.cache.publish(self._holds[seq.index], full)
        self._reuse()

    def grow(self, steps: int) -> None:
        super().grow(steps)
        self._reuse()

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        hold = self._holds.pop(seq.index)
        self._inside -= hold.inside
        self.cache.publish(hold, (seq.stored - seq.unsettled) // self.block_size)
        self.free += self.cache.unpin(hold) - hold.inside

    def strain(self, seq: Sequence | None = None) -> None:
        if seq is None:  # those before the one that found no block took all that were free
            self.cache.evict(self.cache.idle_blocks)

    def live_tokens(self) -> int:
        twice = self._inside - self.cache.pinned_blocks  # times a block is held beyond the first
        return super().live_tokens() - twice * self.block_size

    def tally(self) -> tuple[int, ...]:
        return self.live_tokens(), self.free, self.cache.idle_blocks

    def _match(self, seq: Sequence) -> Found:
        """Blocks to be found: the last token must be computed, for it gives the next one."""
        if seq.chain is None:
            seq.chain = chain(seq, self.block_size)
        return self.cache.match(seq.chain, (seq.target - 1) // self.block_size)

    def _reuse(self) -> None:
        """Blocks were taken: where they had contents, those are forgotten."""
        short = self.cache.idle_blocks - self.free
        if short > 0:
            self.cache.evict(short)

    def check_integrity(self) -> None:
        super().check_integrity()
        self.cache.check_integrity()
        assert self.cache.idle_blocks <= self.free
        assert self.cache.pinned_blocks <= self.blocks - self.free
        assert self._inside == sum(hold.inside for hold in self._holds.values())


def chain(seq: Sequence, block_size: int) -> list[tuple[int, int]]:
    """Names of a request's full blocks as (name, blocks), in order; the last run has no end.

    A block is named by the published id in which its last token lies: equal ids mean equal
    prefixes up to there, whatever the published unit. What no id covers whole, such as generated
    tokens, is named after the request. Even names are ids, odd ones requests.
    """
    runs: list[tuple[int, int]] = []
    end = 0
    if seq.prefix is not None:
        unit, ids = seq.prefix
        for i, name in enumerate(ids, 1):
            start, end = end, min(i * unit, seq.prompt) // block_size
            if end > start:
                runs.append((2 * name, end - start))
    runs.append((2 * seq.index + 1, maxsize))
    return runs
