"""Which prompt blocks are in memory: found by content, counted by user, evicted oldest first.

Blocks are named by hash chain, so equal names mean equal prefixes (vLLM V1's prefix caching). They
are kept as runs: blocks that a trace can't tell apart, because one published id covers them all.
A run is used from its start and loses its tail first, so it is a number rather than a list.
"""

from collections import OrderedDict
from collections.abc import Sequence


class Run:
    """Consecutive blocks with one name."""

    __slots__ = ("blocks", "key", "refs")

    def __init__(self, key: int) -> None:
        self.key = key
        self.blocks = 0  # in memory, from the run's first
        self.refs = 0  # holders


class Hold:
    """What one sequence has of its chain: blocks found, published, or its own copies of others'."""

    __slots__ = ("_done", "_run", "_start", "chain", "inside", "pinned")

    def __init__(self, chain: Sequence[tuple[int, int]]) -> None:
        self.chain = chain  # (key, blocks) from the first block on; the last run has no end
        self._done = 0  # full blocks dealt with
        self._run = 0  # index in the chain of the run in which the next one lies
        self._start = 0  # the block at which that run starts
        self.pinned: list[Run] = []
        self.inside = 0  # of its blocks, those that lie in pinned runs


class PrefixCache:
    """Runs by name. Those without holders keep their contents until their blocks are needed.

    The order of eviction is by last use, and within one use tail before head. A block that is
    computed while another holder has one of that name stays its owner's own, without a name.
    """

    def __init__(self) -> None:
        self.idle_blocks = 0  # in runs without holders
        self.pinned_blocks = 0
        self._runs: dict[int, Run] = {}
        self._idle: OrderedDict[int, Run] = OrderedDict()  # the next to go comes first

    def match(self, chain: Sequence[tuple[int, int]], limit: int) -> list[tuple[Run, int]]:
        """The leading blocks of the chain that are here, at most `limit`: runs, blocks of each."""
        found: list[tuple[Run, int]] = []
        for key, length in chain:
            run = self._runs.get(key)
            if run is None or not limit:
                break
            blocks = min(run.blocks, length, limit)
            found.append((run, blocks))
            if blocks < length:
                break
            limit -= blocks
        return found

    def pin(self, chain: Sequence[tuple[int, int]], found: list[tuple[Run, int]]) -> Hold:
        """Hold the blocks that `match` found. What an idle run has beyond them is forgotten."""
        hold = Hold(chain)
        for run, blocks in found:
            if not run.refs:
                del self._idle[run.key]
                self.idle_blocks -= run.blocks
                self.pinned_blocks += blocks
                run.blocks = blocks
            run.refs += 1
            hold.pinned.append(run)
            self._move(hold, hold._done + blocks)
            hold.inside += blocks
        return hold

    def publish(self, hold: Hold, full: int) -> int:
        """The sequence's first `full` blocks are complete: name those that are new, and count."""
        named = 0
        while hold._done < full:
            key, length = hold.chain[hold._run]
            first = hold._done - hold._start
            last = min(full - hold._start, length)
            run = hold.pinned[-1] if hold.pinned and hold.pinned[-1].key == key else None
            if run is None and not first and key not in self._runs:
                run = self._runs[key] = Run(key)
                run.refs = 1
                hold.pinned.append(run)
            if run is not None and run.blocks == first:
                run.blocks = last
                named += last - first
            self._move(hold, hold._start + last)
        hold.inside += named
        self.pinned_blocks += named
        return named

    @staticmethod
    def _move(hold: Hold, done: int) -> None:
        hold._done = done
        length = hold.chain[hold._run][1]
        if done == hold._start + length:
            hold._run += 1
            hold._start += length

    def unpin(self, hold: Hold) -> int:
        """Let go of all, last run first. Returns the blocks that have no holder any more."""
        freed = 0
        for run in reversed(hold.pinned):
            run.refs -= 1
            if not run.refs:
                self._idle[run.key] = run
                freed += run.blocks
        self.idle_blocks += freed
        self.pinned_blocks -= freed
        return freed

    def oldest(self) -> int:
        """The name of the run that loses blocks next."""
        return next(iter(self._idle))

    def evict(self, blocks: int) -> None:
        """Forget so many idle blocks, of which there must be enough."""
        self.idle_blocks -= blocks
        while blocks:
            key, run = next(iter(self._idle.items()))
            gone = min(run.blocks, blocks)
            run.blocks -= gone
            blocks -= gone
            if not run.blocks:
                del self._idle[key], self._runs[key]

    def check_integrity(self) -> None:
        """Raise AssertionError where counts and runs differ."""
        runs = self._runs.values()
        assert all(run.blocks > 0 for run in runs)
        assert self.idle_blocks == sum(run.blocks for run in runs if not run.refs)
        assert self.pinned_blocks == sum(run.blocks for run in runs if run.refs)
        assert set(self._idle) == {run.key for run in runs if not run.refs}
