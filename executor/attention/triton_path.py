"""Attention over a cache in the project's own Triton kernels: what a GPU runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from executor import kernels
from executor.attention.selection import Selection
from executor.attention.sender import Room, Sender
from executor.cache.contiguous import Contiguous
from executor.cache.seats import Rows
from executor.cache.selected import Selected
from executor.cache.table import Table
from executor.cache.tensors import move
from executor.kernels.decode import decode, splits_for
from executor.kernels.pool import KVPool
from executor.kernels.prefill import prefill
from executor.kernels.store import store
from executor.work import Work


class _Where(NamedTuple):
    """Addresses of some requests' keys: a page table, or first slots in a pool of one page."""

    table: torch.Tensor | None  # int32 [requests, pages]
    start: torch.Tensor | None  # int64 [requests]


class TritonAttention:
    """Stores the step's keys and values, and attends. `begin` once a step, `attend` a layer.

    Storing comes first, because a chunk's context may have been written by another one of the same
    step (a shared prefix); only where a ring overwrites what chunks still see it comes after them.
    """

    def __init__(
        self, table: Table, pools: list[KVPool], marks: Sequence[torch.Tensor] = ()
    ) -> None:
        """`marks`: landmarks of each layer's pages, where the table selects pages. Another table of
        the same kind and size may take this one's place between runs."""
        self.table = table
        self._pools = pools
        self._sender = Sender(pools[0].k.device)
        self._window = table.ring.window if table.ring else 0
        self._sinks = table.ring.sinks if table.ring else 0
        self._selection: Selection | None = None
        if isinstance(table, Selected):
            self._selection = Selection(table, marks, kernels)

    @property
    def replayable(self) -> bool:
        """Whether a step that only decodes launches the same kernels whatever its requests are."""
        return self._selection is None

    def reserve(self, batch: int, longest: int) -> None:
        """Take all memory that steps of up to so many decodes need, so that it never moves."""
        self._room(batch, longest)

    def begin(self, work: Work) -> None:
        """Send the step's addresses to the device: a handful of small copies, no wait."""
        table, sender = self.table, self._sender
        move(self._pools, table.moves)
        if self._selection:
            self._selection.begin(work)
        requests, lengths = work.decoding
        rows = table.owned.rows(requests)
        slots = table.step_slots(work, rows, lengths)
        self._slots = sender.send("slots", slots, np.int64)
        chunks = work.chunks
        self._new = sum(chunk.tokens for chunk in chunks)
        if chunks:
            ends = np.cumsum([0, *(chunk.tokens for chunk in chunks)])
            past = np.array([chunk.start for chunk in chunks])
            self._cu = sender.send("ends", ends, np.int32)
            self._past = sender.send("past", past, np.int32)
            self._max_new = max(chunk.tokens for chunk in chunks)
            self._max_past = int(past.max())
            owners = table.owned.rows([chunk.request for chunk in chunks])
            self._chunks = self._where("chunks", owners)
        if requests:
            self._lengths = sender.send("lengths", lengths, np.int32)
            self._decoding(len(requests), int(lengths.max()))
            self._decodes = self._where("decodes", rows)

    def begin_padded(self, work: Work, batch: int, longest: int) -> None:
        """As `begin`, of a step that only decodes, for a batch of exactly so many sequences.

        Those beyond the step's have no keys and store nothing. All that kernels are given stays the
        same from step to step but for what the memory holds.
        """
        move(self._pools, self.table.moves)
        requests, lengths = work.decoding
        rows, n = self.table.owned.rows(requests), len(requests)
        slots, kept, where = self._room(batch, longest)
        slots.host[:n] = self.table.last_slots(rows, lengths)
        slots.host[n:] = -1
        kept.host[:n] = lengths
        kept.host[n:] = 0
        if isinstance(self.table, Contiguous):
            where.host[:n] = self.table.starts(rows)
            self._decodes = _Where(None, where.send())
        else:
            self.table.owned.fill(rows, where.host[:n])
            self._decodes = _Where(where.send(), None)
        self._slots, self._lengths = slots.send(), kept.send()
        self._new = 0
        self._decoding(batch, longest)

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store and attend. q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads, head_dim], rows
        in the order of the step's `Work`. Returns the shape of q."""
        pool, new = self._pools[layer], self._new
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        window, sinks, ring = self._window, self._sinks, bool(self._window)
        if not ring:
            store(pool, k, v, self._slots)
        if new:
            prefill(
                q[:new],
                k[:new],
                v[:new],
                pool,
                self._cu,
                self._past,
                max_new=self._max_new,
                max_past=self._max_past,
                table=self._chunks.table,
                start=self._chunks.start,
                window=window,
                sinks=sinks,
                ring=ring,
                out=out[:new],
            )
        if ring:
            store(pool, k, v, self._slots)
        if self._selection:
            self._selection.wrote(layer, pool)
            if new < len(q):
                out[new:] = self._selection.decode(layer, pool, q[new:])
        elif new < len(q):
            decode(
                q[new:],
                pool,
                self._lengths,
                max_length=self._max_length,
                table=self._decodes.table,
                start=self._decodes.start,
                window=window,
                sinks=sinks,
                ring=ring,
                out=out[new:],
                splits=self._splits,
            )
        return out

    def _decoding(self, batch: int, longest: int) -> None:
        """Choose once a step what every layer's decode needs."""
        pool = self._pools[0]
        self._max_length = longest
        self._splits = splits_for(pool, batch, longest, self._window + self._sinks)

    def _room(self, batch: int, longest: int) -> tuple[Room, Room, Room]:
        """Slots, lengths, and page tables or first slots of so many decodes."""
        slots = self._sender.room("slots", (batch,), np.int64)
        lengths = self._sender.room("lengths", (batch,), np.int32)
        if isinstance(self.table, Contiguous):
            return slots, lengths, self._sender.room("decodes", (batch,), np.int64)
        owned = self.table.owned
        owned.reserve(self.table.units_for(longest))
        pages = (batch, owned.width)
        return slots, lengths, self._sender.room("decodes", pages, np.int32)

    def _where(self, name: str, rows: Rows) -> _Where:
        table = self.table
        if isinstance(table, Contiguous):
            return _Where(None, self._sender.send(name, table.starts(rows), np.int64))
        pages = self._sender.room(name, (len(rows), table.owned.width), np.int32)
        table.owned.fill(rows, pages.host)
        return _Where(pages.send(), None)
