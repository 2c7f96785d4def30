"""Into which pieces a batch's keys are cut: one program works on one piece of one key head.

Pieces are of one size for the whole batch, so that a long sequence has more of them than a short
one and none of them is the tail that all wait for (as FlashInfer plans its batches, Ye et al.,
2025). Numbers alone come from the host; a program reads which piece is its own, and divides the
length that it finds on the device by the pieces of its sequence. So a choice stays right, and
nearly as good, while sequences grow, and a CUDA graph replays any.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

MOST_PIECES = 64  # of a sequence: the combine kernel holds the weights of all of them
LEAST_TILES = 4  # fewer, and a piece's start and the combine cost more than it saves
START_TILES = 1  # that a piece's start takes as long as
WAVES = 3  # pieces a batch may have beside one a sequence, in what the chip runs at once
FIELDS = 4

Counts = NDArray[np.int64]


class Pieces(NamedTuple):
    """What each program works on and where its output goes, on the device."""

    each: torch.Tensor  # int32 [programs, 4]: sequence or -1, which piece, of how many, row
    rows: torch.Tensor  # int32 [batch, 2]: first row of a sequence, and its pieces
    whole: bool  # each sequence is one piece and its row its own: nothing to combine


def most_pieces(batch: int, slots: int) -> int:
    """Pieces that a batch may have; batches that fill the chip eight times have one a sequence."""
    return batch if batch >= 8 * slots else batch + WAVES * slots


def cut(tiles: Counts, slots: int, most: int) -> Counts:
    """Pieces of each sequence, of its key tiles [batch]; at least one, together at most `most`.

    slots: programs of one key head that the chip runs at once. Of all sizes that cut the longest
    sequence evenly, the largest that is done within 5 % of the soonest, counted in waves of the
    largest piece.
    """
    longest = int(tiles.max(initial=1))
    parts = np.arange(1, max(1, min(longest // LEAST_TILES, MOST_PIECES)) + 1)
    sizes = np.unique(-(-longest // parts))[::-1]
    # Quotients of small integers round to no integer that they aren't.
    counts = np.maximum(np.ceil(tiles / sizes[:, None]), 1).astype(np.int64)  # [sizes, batch]
    total = counts.sum(1)
    largest = np.ceil(tiles / counts).max(1).astype(np.int64) + START_TILES
    work = int(tiles.sum()) + START_TILES * total
    ends = -(-work // (slots * largest)) * largest
    ends = np.where(total <= max(most, len(tiles)), ends, np.iinfo(np.int64).max)
    chosen: NDArray[np.int64] = counts[np.flatnonzero(ends <= 1.05 * ends.min())[0]]
    return chosen


def lay_out(
    tiles: Counts, counts: Counts, each: NDArray[np.int32], rows: NDArray[np.int32]
) -> bool:
    """Write `Pieces.each` and `Pieces.rows` of so many pieces of such sequences; returns `whole`.

    Longest pieces first: the last programs to begin are the soonest done. Rows of `each` beyond
    the pieces are nobody's.
    """
    order = np.argsort(-(tiles // counts), kind="stable")
    of = counts[order]
    total, first = int(of.sum()), np.cumsum(of) - of
    whole = total == len(counts) == len(each)
    piece = np.arange(total)
    each[:total, 0] = np.repeat(order, of)
    each[:total, 1] = piece - np.repeat(first, of)
    each[:total, 2] = np.repeat(of, of)
    each[:total, 3] = order if whole else piece
    each[total:, 0] = -1
    rows[order, 0], rows[order, 1] = first, of
    return whole


@cache
def equal_pieces(batch: int, splits: int, device: torch.device) -> Pieces:
    """The same number of pieces of each sequence: what is left where the host knows no lengths."""
    counts = np.full(batch, splits, dtype=np.int64)
    each = np.empty((batch * splits, FIELDS), dtype=np.int32)
    rows = np.empty((batch, 2), dtype=np.int32)
    whole = lay_out(counts, counts, each, rows)
    return Pieces(torch.from_numpy(each).to(device), torch.from_numpy(rows).to(device), whole)
