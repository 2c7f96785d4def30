"""Into which pieces the keys of a step's decodes are cut: by the host, kept on the device."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from executor.attention.sender import Sender
from executor.kernels.decode import programs_at_once, tile_keys
from executor.kernels.decode.pieces import FIELDS, WAVES, Pieces, cut, lay_out, most_pieces
from executor.kernels.pool import KVPool

Lengths = NDArray[np.int64]


class _Choice(NamedTuple):
    batch: int
    slots: int
    lengths: Lengths
    pieces: Pieces


class Cuts:
    """The same choice serves until a batch is another one or a length has moved by a tile, for a
    sequence's pieces are of its length as the device knows it."""

    def __init__(self, pool: KVPool, sender: Sender, kept: int, name: str = "") -> None:
        """kept: keys of a sequence that a window keeps, 0 without one; name: whose memory it is."""
        self._pool, self._sender, self._kept, self._name = pool, sender, kept, name
        self._tile = tile_keys(pool)
        self._room = programs_at_once(pool, kept)  # for good: graphs must find what they captured
        self._last: dict[str, _Choice] = {}

    def reserve(self, batch: int) -> None:
        """Take the memory of padded batches of up to so many."""
        programs = batch + WAVES * self._room
        self._sender.room(f"padded pieces {self._name}", (programs, FIELDS), np.int32)
        self._sender.room(f"padded rows {self._name}", (batch, 2), np.int32)

    def of(self, lengths: Lengths) -> Pieces:
        """Of contexts of those lengths [batch]."""
        return self._cut("launched", lengths, len(lengths), None)

    def padded(self, lengths: Lengths, batch: int) -> Pieces:
        """Of the first sequences of a batch of so many: as many programs whatever lengths are."""
        return self._cut("padded", lengths, batch, most_pieces(batch, self._room))

    def _cut(self, name: str, lengths: Lengths, batch: int, programs: int | None) -> Pieces:
        if self._kept:
            lengths = np.minimum(lengths, self._kept)
        slots = programs_at_once(self._pool, self._kept)
        last = self._last.get(name)
        if last and (last.batch, last.slots, len(last.lengths)) == (batch, slots, len(lengths)):
            moved = np.abs(lengths - last.lengths)
            if moved.max(initial=0) < self._tile:
                return last.pieces
        tiles = np.zeros(batch, dtype=np.int64)
        tiles[: len(lengths)] = -(-lengths // self._tile)
        counts = cut(tiles, slots, programs or most_pieces(batch, slots))
        shape = (programs or int(counts.sum()), FIELDS)
        each = self._sender.room(f"{name} pieces {self._name}", shape, np.int32)
        rows = self._sender.room(f"{name} rows {self._name}", (batch, 2), np.int32)
        whole = lay_out(tiles, counts, each.host, rows.host)
        pieces = Pieces(each.send(), rows.send(), whole)
        self._last[name] = _Choice(batch, slots, lengths.copy(), pieces)
        return pieces
