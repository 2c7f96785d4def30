"""Which full blocks are in memory: found by content, counted by user, evicted as vLLM does.

Blocks are named by hash chain, so equal names mean equal prefixes (vLLM V1's prefix caching). Those
that a trace can't tell apart, because one published id covers them all, make a run, and what
happened to all of them alike is kept as one piece of it: a number rather than a list.
"""

from collections import OrderedDict
from collections.abc import Sequence


class Piece:
    """Blocks [start, end) of a run: one copy, the same holders, one place in the queue.

    `pages` are whatever stands behind them, one a block, for who has a use for that.
    """

    __slots__ = ("end", "key", "pages", "refs", "since", "start")

    def __init__(self, key: int, start: int, end: int) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.refs = 0  # holders
        self.since = 0  # when the last of them let go, as `PrefixCache.lettings` counts
        self.pages: list[int] = []


Found = list[tuple[Piece, int, int]]
"""Pieces, and which blocks [first, last) of their runs to take from them."""


class Hold:
    """What one sequence has of its chain: the pieces of its full blocks, from the first on."""

    __slots__ = ("_done", "_run", "_start", "chain", "inside", "pieces")

    def __init__(self, chain: Sequence[tuple[int, int]]) -> None:
        self.chain = chain  # (key, blocks) from the first block on; the last run has no end
        self._done = 0  # full blocks dealt with
        self._run = 0  # index in the chain of the run in which the next one lies
        self._start = 0  # the block at which that run starts
        self.pieces: list[Piece] = []
        self.inside = 0  # blocks in them


class PrefixCache:
    """Pieces of runs by name. Those without holders keep their contents until they are needed.

    As in vLLM 0.32 (v1/core/block_pool.py): blocks without contents are used first, then those with
    contents in the order in which their last holders let go, and of one holder tail before head. A
    block that is computed while another of its name is there is a second copy with a life of its
    own, and who looks for the name gets the copy that is there longest.
    """

    def __init__(self) -> None:
        self.idle_blocks = 0  # in pieces without holders
        self.pinned_blocks = 0
        self.lettings = 0  # how often a holder let go
        self._runs: dict[int, list[Piece]] = {}  # in the order in which blocks got their names
        self._idle: OrderedDict[Piece, None] = OrderedDict()  # the next to go comes first
        self._holds: set[Hold] = set()

    def match(self, chain: Sequence[tuple[int, int]], limit: int) -> Found:
        """The leading blocks of the chain that are here, at most `limit`."""
        found: Found = []
        runs = self._runs
        for key, length in chain:
            pieces = runs.get(key)
            if pieces is None or not limit:
                break
            end = min(length, limit)
            if len(pieces) == 1:
                (piece,) = pieces
                at = 0 if piece.start else min(piece.end, end)
                if at:
                    found.append((piece, 0, at))
            else:
                at = _match_copies(pieces, end, found)
            if at < length:
                break
            limit -= at
        return found

    def blocks(self, found: Found) -> int:
        """How many were found."""
        return sum([last - first for _, first, last in found])

    def held_blocks(self, found: Found) -> int:
        """How many of those somebody holds."""
        return sum([last - first for piece, first, last in found if piece.refs])

    def pin(self, chain: Sequence[tuple[int, int]], found: Found) -> Hold:
        """Hold the blocks that `match` found."""
        hold = Hold(chain)
        self._holds.add(hold)
        for whole, first, last in found:
            piece = whole if whole.start == first and whole.end == last else None
            if piece is None:
                piece = self._cut(whole, first, last)
            if not piece.refs:
                del self._idle[piece]
                self.idle_blocks -= last - first
                self.pinned_blocks += last - first
            piece.refs += 1
            hold.pieces.append(piece)
            self._move(hold, hold._done + last - first)
            hold.inside += last - first
        return hold

    def publish(self, hold: Hold, full: int) -> int:
        """The sequence's first `full` blocks are complete: name those that are new, and count."""
        done, named = hold._done, 0
        while done < full:
            key, length = hold.chain[hold._run]
            start = hold._start
            first, last = done - start, min(full - start, length)
            pieces = self._runs.get(key)
            if pieces is None:
                pieces = self._runs[key] = []
            piece = hold.pieces[-1] if hold.pieces else None
            # Later blocks go on with a piece only while no other copy can have got between them.
            if piece and pieces and piece is pieces[-1] and piece.refs == 1 and piece.end == first:
                piece.end = last
            else:
                piece = Piece(key, first, last)
                piece.refs = 1
                pieces.append(piece)
                hold.pieces.append(piece)
            named += last - first
            done = start + last
            if last == length:
                hold._run += 1
                hold._start = done
        hold._done = done
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
        """Let go of all, tail first. Returns the blocks that have no holder any more."""
        freed, idle = 0, self._idle
        self.lettings += 1
        self._holds.discard(hold)
        for piece in reversed(hold.pieces):
            piece.refs -= 1
            if not piece.refs:
                idle[piece] = None
                piece.since = self.lettings
                freed += piece.end - piece.start
        self.idle_blocks += freed
        self.pinned_blocks -= freed
        return freed

    def evict(self, blocks: int) -> list[int]:
        """Forget so many idle blocks, of which there must be enough. Returns their pages."""
        self.idle_blocks -= blocks
        pages: list[int] = []
        while blocks:
            piece, _ = self._idle.popitem(last=False)
            size = piece.end - piece.start
            if size > blocks:  # its head stays, and goes next
                self._idle[piece] = None
                self._idle.move_to_end(piece, last=False)
                size = blocks
            else:
                pieces = self._runs[piece.key]
                if len(pieces) == 1:
                    del self._runs[piece.key]
                else:
                    pieces.remove(piece)
            piece.end -= size
            blocks -= size
            if piece.pages:
                pages += piece.pages[piece.end - piece.start :]
                del piece.pages[piece.end - piece.start :]
        return pages

    def _cut(self, piece: Piece, first: int, last: int) -> Piece:
        """These blocks of it as a piece of their own; `piece` stays what lies behind them."""
        if piece.start < first:
            front = self._split(piece, first)
            if not piece.refs:  # the queue has the tail before it
                later = list(self._idle)
                for one in later[later.index(piece) + 1 :]:
                    self._idle.move_to_end(one)
                self._idle[front] = None
                for one in later[later.index(piece) + 1 :]:
                    self._idle.move_to_end(one)
        if last == piece.end:
            return piece
        front = self._split(piece, last)
        if not piece.refs:
            self._idle[front] = None  # anywhere: it is about to be pinned
        return front

    def _split(self, piece: Piece, at: int) -> Piece:
        """What lies before that block becomes a piece of its own, for all who hold it."""
        front = Piece(piece.key, piece.start, at)
        front.refs, front.since = piece.refs, piece.since
        front.pages, piece.pages = piece.pages[: at - piece.start], piece.pages[at - piece.start :]
        piece.start = at
        pieces = self._runs[piece.key]
        pieces.insert(pieces.index(piece), front)
        if piece.refs:
            for hold in self._holds:
                if piece in hold.pieces:
                    hold.pieces.insert(hold.pieces.index(piece), front)
        return front

    def next_to_go(self) -> tuple[int, int]:
        """When the idle blocks that go next were let go, and how many those are; there are some."""
        piece = next(iter(self._idle))
        return piece.since, piece.end - piece.start

    def pages(self) -> set[int]:
        """All pages behind blocks that are here."""
        return {page for run in self._runs.values() for piece in run for page in piece.pages}

    def idle_pages(self) -> int:
        """How many of them are behind blocks that nobody holds."""
        return sum(len(piece.pages) for piece in self._idle)

    def check_integrity(self) -> None:
        """Raise AssertionError where counts and pieces differ."""
        pieces = [piece for run in self._runs.values() for piece in run]
        assert all(piece.end > piece.start for piece in pieces)
        sizes = [(piece.end - piece.start, piece.refs) for piece in pieces]
        assert self.idle_blocks == sum(size for size, refs in sizes if not refs)
        assert self.pinned_blocks == sum(size for size, refs in sizes if refs)
        assert set(self._idle) == {piece for piece in pieces if not piece.refs}
        held = [piece for hold in self._holds for piece in hold.pieces]
        assert len(held) == sum(piece.refs for piece in pieces)


def _match_copies(pieces: list[Piece], end: int, found: Found) -> int:
    """As many blocks of a run as follow each other, each from its first copy; how many they are."""
    at = 0
    while at < end:
        place = next((i for i, one in enumerate(pieces) if one.start <= at < one.end), None)
        if place is None:
            break
        earlier = [one.start for one in pieces[:place] if one.start > at]
        last = min([pieces[place].end, end, *earlier])
        found.append((pieces[place], at, last))
        at = last
    return at
