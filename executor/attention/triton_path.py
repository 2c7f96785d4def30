"""Attention over a cache in the project's own Triton kernels: what a GPU runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from executor import kernels
from executor.attention.selection import Selection
from executor.cache.contiguous import Contiguous
from executor.cache.selected import Selected
from executor.cache.table import Table
from executor.cache.tensors import move
from executor.kernels.decode import decode
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
        """`marks`: landmarks of each layer's pages, where the table selects pages."""
        self._table = table
        self._pools = pools
        self._device = pools[0].k.device
        self._window = table.ring.window if table.ring else 0
        self._sinks = table.ring.sinks if table.ring else 0
        self._selection: Selection | None = None
        if isinstance(table, Selected):
            self._selection = Selection(table, marks, kernels)

    def begin(self, work: Work) -> None:
        """Send the step's addresses to the device: a handful of small copies, no wait."""
        table = self._table
        move(self._pools, table.moves)
        if self._selection:
            self._selection.begin(work)
        spans = [(c.request, c.start, c.start + c.tokens) for c in work.chunks]
        spans += [(request, length - 1, length) for request, length in work.decodes]
        self._slots = self._sent(np.concatenate([table.slots(*span) for span in spans]), np.int64)
        chunks, decodes = work.chunks, work.decodes
        self._new = sum(chunk.tokens for chunk in chunks)
        if chunks:
            ends = np.cumsum([0, *(chunk.tokens for chunk in chunks)])
            self._cu = self._sent(ends, np.int32)
            self._past = self._sent([chunk.start for chunk in chunks], np.int32)
            self._max_new = max(chunk.tokens for chunk in chunks)
            self._max_past = max(chunk.start for chunk in chunks)
            self._chunks = self._where([chunk.request for chunk in chunks])
        if decodes:
            self._lengths = self._sent([length for _, length in decodes], np.int32)
            self._max_length = max(length for _, length in decodes)
            self._decodes = self._where([request for request, _ in decodes])

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
            )
        return out

    def _where(self, requests: list[int]) -> _Where:
        table = self._table
        if isinstance(table, Contiguous):
            starts = [table.start(request) for request in requests]
            return _Where(None, self._sent(starts, np.int64))
        owned = [table.owned[request] for request in requests]
        pages = np.zeros((len(owned), max(map(len, owned))), dtype=np.int32)
        for row, units in zip(pages, owned, strict=True):
            row[: len(units)] = units
        return _Where(self._sent(pages, np.int32), None)

    def _sent(self, values: ArrayLike, kind: type[np.int32] | type[np.int64]) -> torch.Tensor:
        host = torch.from_numpy(np.ascontiguousarray(values, dtype=kind))
        if self._device.type == "cuda":
            return host.pin_memory().to(self._device, non_blocking=True)
        return host
