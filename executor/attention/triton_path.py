"""Attention over a cache in the project's own Triton kernels: what a GPU runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from executor import kernels
from executor.attention.cuts import Cuts
from executor.attention.selection import Selection
from executor.attention.sender import Room, Sender
from executor.cache.contiguous import Contiguous
from executor.cache.seats import Rows
from executor.cache.selected import Selected
from executor.cache.table import Table, View
from executor.cache.tensors import move, slot_data
from executor.kernels.decode import decode
from executor.kernels.decode.pieces import Pieces
from executor.kernels.pool import KVPool
from executor.kernels.prefill import prefill
from executor.kernels.store import store
from executor.work import Work


class _Where(NamedTuple):
    """Addresses of some requests' keys: a page table, or first slots in a pool of one page."""

    table: torch.Tensor | None  # int32 [requests, pages]
    start: torch.Tensor | None  # int64 [requests]


class _Step(NamedTuple):
    """What a step's tokens are to the layers of one block table."""

    window: int
    slots: torch.Tensor  # int64 [tokens]
    chunks: _Where | None
    decodes: _Where | None
    pieces: Pieces | None  # of the decodes' keys


class TritonAttention:
    """Stores the step's keys and values, and attends. `begin` once a step, `attend` a layer.

    Storing comes first, because a chunk's context may have been written by another one of the same
    step (a shared prefix); only where a ring overwrites what chunks still see it comes after them.
    """

    def __init__(
        self,
        table: Table,
        pools: list[KVPool],
        marks: Sequence[torch.Tensor] = (),
        views: Sequence[int] = (),
    ) -> None:
        """`marks`: landmarks of each layer's pages, where the table selects pages. `views`: which
        of the table's each layer sees; all the first, if not told. Another table of the same kind
        and size may take this one's place between runs."""
        self.table = table
        self._pools = pools
        self._views = views or [0] * len(pools)
        self._sender = Sender(pools[0].k.device)
        self._sinks = table.ring.sinks if table.ring else 0
        self._cuts = [
            Cuts(pools[0], self._sender, self._window(view) + self._sinks, str(i))
            for i, view in enumerate(table.views)
        ]
        self._selection: Selection | None = None
        if isinstance(table, Selected):
            self._selection = Selection(table, marks, kernels)

    @property
    def replayable(self) -> bool:
        """Whether a step that only decodes launches the same kernels whatever its requests are."""
        return self._selection is None

    def reserve(self, batch: int, longest: int) -> None:
        """Take all memory that steps of up to so many decodes need, so that it never moves."""
        self._sender.room("padded lengths", (batch,), np.int32)
        for i, cuts in enumerate(self._cuts):
            self._room(i, batch, longest)
            cuts.reserve(batch)

    def begin(self, work: Work) -> None:
        """Send the step's addresses to the device: a handful of small copies, no wait."""
        table, sender = self.table, self._sender
        move(slot_data(self._pools), table.moves)
        if self._selection:
            self._selection.begin(work)
        requests, lengths = work.decoding
        chunks = work.chunks
        self._new = sum(chunk.tokens for chunk in chunks)
        if chunks:
            ends = np.cumsum([0, *(chunk.tokens for chunk in chunks)])
            past = np.array([chunk.start for chunk in chunks])
            self._cu = sender.send("ends", ends, np.int32)
            self._past = sender.send("past", past, np.int32)
            self._max_new = max(chunk.tokens for chunk in chunks)
            self._max_past = int(past.max())
        if requests:
            self._lengths = sender.send("lengths", lengths, np.int32)
            self._max_length = int(lengths.max())
        self._steps = [self._step(i, work) for i in range(len(table.views))]

    def _step(self, i: int, work: Work) -> _Step:
        view = self.table.views[i]
        table = view.table
        requests, lengths = work.decoding
        rows = table.owned.rows(requests)
        slots = self._sender.send(f"slots {i}", table.step_slots(work, rows, lengths), np.int64)
        prefills = decodes = None
        if work.chunks:
            owners = table.owned.rows([chunk.request for chunk in work.chunks])
            prefills = self._where(f"chunks {i}", table, owners)
        pieces = None
        if requests:
            decodes = self._where(f"decodes {i}", table, rows)
            pieces = self._cuts[i].of(lengths)
        return _Step(self._window(view), slots, prefills, decodes, pieces)

    def begin_padded(self, work: Work, batch: int, longest: int) -> None:
        """As `begin`, of a step that only decodes, for a batch of exactly so many sequences.

        Those beyond the step's have no keys and store nothing. All that kernels are given stays the
        same from step to step but for what the memory holds.
        """
        move(slot_data(self._pools), self.table.moves)
        requests, lengths = work.decoding
        n = len(requests)
        kept = self._sender.room("padded lengths", (batch,), np.int32)
        kept.host[:n] = lengths
        kept.host[n:] = 0
        self._lengths, self._max_length, self._new = kept.send(), longest, 0
        self._steps = []
        for i, view in enumerate(self.table.views):
            table = view.table
            rows = table.owned.rows(requests)
            slots, where = self._room(i, batch, longest)
            slots.host[:n] = table.last_slots(rows, lengths)
            slots.host[n:] = -1
            if isinstance(table, Contiguous):
                where.host[:n] = table.starts(rows)
                decodes = _Where(None, where.send())
            else:
                table.owned.fill(rows, where.host[:n])
                decodes = _Where(where.send(), None)
            pieces = self._cuts[i].padded(lengths, batch)
            self._steps.append(_Step(self._window(view), slots.send(), None, decodes, pieces))

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store and attend. q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads, head_dim], rows
        in the order of the step's `Work`. Returns the shape of q."""
        pool, new, step = self._pools[layer], self._new, self._steps[self._views[layer]]
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        ring = self.table.ring is not None
        if not ring:
            store(pool, k, v, step.slots)
        if step.chunks:
            prefill(
                q[:new],
                k[:new],
                v[:new],
                pool,
                self._cu,
                self._past,
                max_new=self._max_new,
                max_past=self._max_past,
                table=step.chunks.table,
                start=step.chunks.start,
                window=step.window,
                sinks=self._sinks,
                ring=ring,
                out=out[:new],
            )
        if ring:
            store(pool, k, v, step.slots)
        if self._selection:
            self._selection.wrote(layer, pool)
            if new < len(q):
                out[new:] = self._selection.decode(layer, pool, q[new:])
        elif step.decodes:
            decode(
                q[new:],
                pool,
                self._lengths,
                max_length=self._max_length,
                table=step.decodes.table,
                start=step.decodes.start,
                window=step.window,
                sinks=self._sinks,
                ring=ring,
                out=out[new:],
                pieces=step.pieces,
            )
        return out

    def _window(self, view: View) -> int:
        return self.table.ring.window if self.table.ring else view.window

    def _room(self, i: int, batch: int, longest: int) -> tuple[Room, Room]:
        """Slots, and page tables or first slots, of so many decodes."""
        table = self.table.views[i].table
        slots = self._sender.room(f"padded slots {i}", (batch,), np.int64)
        if isinstance(table, Contiguous):
            return slots, self._sender.room(f"padded decodes {i}", (batch,), np.int64)
        table.owned.reserve(table.units_for(longest))
        pages = (batch, table.owned.width)
        return slots, self._sender.room(f"padded decodes {i}", pages, np.int32)

    def _where(self, name: str, table: Table, rows: Rows) -> _Where:
        if isinstance(table, Contiguous):
            return _Where(None, self._sender.send(name, table.starts(rows), np.int64))
        pages = self._sender.room(name, (len(rows), table.owned.width), np.int32)
        table.owned.fill(rows, pages.host)
        return _Where(pages.send(), None)
