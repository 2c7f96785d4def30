"""Attention over a cache in torch alone: what a CPU runs, and a second opinion on a GPU.

Sequence by sequence, so that each reads its own keys and no padding; the query heads that share a
key head are packed into rows of one product, which in bf16 is worth seven times.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from executor.attention.selection import Selection
from executor.cache.selected import Selected
from executor.cache.table import Run, Table
from executor.cache.tensors import move
from executor.kernels import torch_ops
from executor.kernels.pool import PARTS, KVPool
from executor.kernels.store.reference import read_back
from executor.kernels.store.reference import store as quantised
from executor.work import Work
from sim.plan import Chunk

Span = Run | torch.Tensor
"""Slots in a row, or rows of a pool seen as [pages × kv_heads, page_size × head_dim]."""


class _Read(NamedTuple):
    """The keys that one decoding request or one chunk sees."""

    span: Span
    keys: int


class _Prefill(NamedTuple):
    chunk: Chunk
    read: _Read | None  # None: the ring wraps, and earlier keys are read before they are lost
    before: torch.Tensor  # int64 [kept]: slots of those
    mask: torch.Tensor  # [tokens, keys], 0 where seen and -inf elsewhere


class TorchAttention:
    """Stores the step's keys and values, then attends. `begin` once a step, `attend` a layer."""

    def __init__(
        self,
        table: Table,
        pools: list[KVPool],
        dtype: torch.dtype,
        marks: Sequence[torch.Tensor] = (),
    ) -> None:
        """`marks`: landmarks of each layer's pages, where the table selects pages."""
        self._table = table
        self._pools = pools
        self._selection: Selection | None = None
        if isinstance(table, Selected):
            self._selection = Selection(table, marks, torch_ops)
        self._dtype = dtype
        self._device = pools[0].k.device
        self._scratch: torch.Tensor | None = None

    def begin(self, work: Work) -> None:
        """Look up where the step's tokens go and where its requests' keys are."""
        table = self._table
        move(self._pools, table.moves)
        if self._selection:
            self._selection.begin(work)
        requests, lengths = work.decoding
        slots = table.step_slots(work, table.owned.rows(requests), lengths)
        self._tokens = torch.from_numpy(np.flatnonzero(slots >= 0)).to(self._device)
        self._slots = torch.from_numpy(slots[slots >= 0]).to(self._device)
        self._prefills = [self._prefill(chunk) for chunk in work.chunks]
        self._decodes = [self._read(request, length) for request, length in work.decodes]
        self._scratch = self._rows_for(self._decodes)

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store k and v, and attend. q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads,
        head_dim], rows in the order of the step's `Work`. Returns the shape of q."""
        pool = self._pools[layer]
        earlier = [
            None if prefill.read else gather(pool, prefill.before, self._dtype)
            for prefill in self._prefills
        ]
        store(pool, k[self._tokens], v[self._tokens], self._slots)
        out = torch.empty_like(q)
        row = 0
        for prefill, past in zip(self._prefills, earlier, strict=True):
            rows = slice(row, row + prefill.chunk.tokens)
            row = rows.stop
            if prefill.read:
                keys, values = dense(pool, *prefill.read, self._dtype)
            else:
                assert past is not None
                keys = torch.cat([past[0], k[rows].transpose(0, 1)], 1)
                values = torch.cat([past[1], v[rows].transpose(0, 1)], 1)
            out[rows] = causal(q[rows], keys, values, prefill.mask)
        if self._selection:
            self._selection.wrote(layer, pool)
            if row < len(q):
                out[row:] = self._selection.decode(layer, pool, q[row:])
            return out
        for i, read in enumerate(self._decodes, row):
            out[i] = decode(pool, *read, q[i], self._scratch)
        return out

    def _read(self, request: int, length: int) -> _Read:
        kept = self._table.kept(request, length)
        if isinstance(kept, Run):
            return _Read(kept, kept.stop - kept.start)
        heads = self._pools[0].kv_heads
        rows = np.arange(heads)[:, None] + kept.astype(np.int64)[None, :] * heads
        keys = self._table.kept_tokens(length)
        return _Read(torch.from_numpy(rows.ravel()).to(self._device), keys)

    def _rows_for(self, reads: list[_Read]) -> torch.Tensor | None:
        """Room for the pages of the longest of these, K and V; None where they lie in a row.

        Gathered into the same memory again and again, pages stay in the processor's cache.
        """
        longest = max((len(r.span) for r in reads if not isinstance(r.span, Run)), default=0)
        pool = self._pools[0]
        if not longest or pool.storage != "native":
            return None
        shape = (2, longest, pool.page_size * pool.head_dim)
        if self._scratch is not None and self._scratch.shape[1] >= longest:
            return self._scratch
        return torch.empty(shape, dtype=pool.k.dtype, device=self._device)

    def _prefill(self, chunk: Chunk) -> _Prefill:
        table = self._table
        stop = chunk.start + chunk.tokens
        queries = np.arange(chunk.start, stop)[:, None]
        nothing = torch.empty(0, dtype=torch.int64)
        ring = table.ring
        if ring and stop > ring.slots:
            earlier = ring.kept_positions(chunk.start)
            positions = np.concatenate([earlier, np.arange(chunk.start, stop)])[None, :]
            recent = (positions > queries - ring.window) | (positions < ring.sinks)
            seen = (positions <= queries) & recent
            before = torch.from_numpy(table.kept_slots(chunk.request, chunk.start))
            return _Prefill(chunk, None, before.to(self._device), self._mask(seen))
        seen = np.arange(stop)[None, :] <= queries
        return _Prefill(chunk, self._read(chunk.request, stop), nothing, self._mask(seen))

    def _mask(self, seen: "np.ndarray[tuple[int, int], np.dtype[np.bool_]]") -> torch.Tensor:
        mask = torch.zeros(seen.shape, dtype=self._dtype)
        mask.masked_fill_(torch.from_numpy(~seen), float("-inf"))
        return mask.to(self._device)


def store(pool: KVPool, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor) -> None:
    """Write k and v [tokens, kv_heads, head_dim] at slots int64 [tokens]."""
    if pool.storage != "native":
        quantised(pool, k, v, slots)
        return
    if pool.pages == 1:
        pool.k[0].index_copy_(1, slots, k.transpose(0, 1))
        pool.v[0].index_copy_(1, slots, v.transpose(0, 1))
        return
    pages, offsets = slots // pool.page_size, slots % pool.page_size
    pool.k[pages, :, offsets] = k
    pool.v[pages, :, offsets] = v


def codes(
    data: torch.Tensor, span: Span, keys: int, room: torch.Tensor | None = None
) -> torch.Tensor:
    """A sequence's rows of data [pages, kv_heads, page_size, width]: [kv_heads, keys, width].

    A view where they lie in a row, else a copy of whole pages, into `room` if given.
    """
    if isinstance(span, Run):
        return data[0, :, span.start : span.stop]
    pages, heads, page_size, width = data.shape
    flat = data.view(pages * heads, page_size * width)
    rows = torch.index_select(flat, 0, span, out=None if room is None else room[: len(span)])
    return rows.view(heads, -1, width)[:, :keys]


def dense(
    pool: KVPool, span: Span, keys: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V [kv_heads, keys, head_dim] in that type."""
    k, v = (codes(data, span, keys) for data in pool.codes)
    if not _scaled(pool):
        return read(pool, k, v, None, dtype)
    assert pool.side is not None
    return read(pool, k, v, codes(pool.side.flatten(3), span, keys), dtype)


def _scaled(pool: KVPool) -> bool:
    """Whether each token has scales of its own."""
    return pool.side is not None and pool.storage != "fp8"


def read(
    pool: KVPool, k: torch.Tensor, v: torch.Tensor, side: torch.Tensor | None, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Values of codes [kv_heads, keys, width] and their scales [kv_heads, keys, parts]."""
    if pool.storage == "native":
        return k, v
    if pool.storage == "fp8":
        k, v = k.view(torch.float8_e4m3fn), v.view(torch.float8_e4m3fn)
    elif pool.storage == "int4":
        assert side is not None
        side = side.view(*side.shape[:-1], 2, PARTS, 2)
    return read_back(pool, k, side, 0).to(dtype), read_back(pool, v, side, 1).to(dtype)


def gather(
    pool: KVPool, slots: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V [kv_heads, slots, head_dim], copied."""
    pages, offsets = slots // pool.page_size, slots % pool.page_size
    k, v = (data[pages, :, offsets].transpose(0, 1) for data in pool.codes)
    if not _scaled(pool):
        return read(pool, k, v, None, dtype)
    assert pool.side is not None
    side = pool.side.flatten(3)[pages, :, offsets].transpose(0, 1)
    return read(pool, k, v, side, dtype)


def decode(
    pool: KVPool, span: Span, keys: int, q: torch.Tensor, room: torch.Tensor | None = None
) -> torch.Tensor:
    """One query [heads, head_dim] over its keys; returns its shape.

    Of int8 only the codes are converted: the scales join scores and weights, D times fewer.
    """
    packed = q.view(pool.kv_heads, -1, pool.head_dim)  # [kv_heads, group, head_dim]
    if pool.storage != "int8":
        if room is None:
            k, v = dense(pool, span, keys, q.dtype)
        else:
            k, v = codes(pool.k, span, keys, room[0]), codes(pool.v, span, keys, room[1])
        return scaled_dot_product_attention(packed[None], k[None], v[None]).view(q.shape)
    assert pool.side is not None
    k, v = codes(pool.k, span, keys), codes(pool.v, span, keys)
    side = codes(pool.side, span, keys).to(q.dtype)
    scores = torch.bmm(packed, k.to(q.dtype).transpose(1, 2)) * pool.head_dim**-0.5
    weights = torch.softmax(scores * side[:, None, :, 0], -1) * side[:, None, :, 1]
    return torch.bmm(weights, v.to(q.dtype)).view(q.shape)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Queries [tokens, heads, head_dim] over keys [kv_heads, keys, head_dim] under a mask."""
    grouped = q.shape[1] != k.shape[0]
    out = scaled_dot_product_attention(
        q.transpose(0, 1)[None], k[None], v[None], attn_mask=mask, enable_gqa=grouped
    )
    return out[0].transpose(0, 1)
