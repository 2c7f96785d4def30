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
from executor.cache.table import Run, Table, View
from executor.cache.tensors import move, slot_data
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
    hidden: int = 0  # of them, from the first on, behind a window


class _Prefill(NamedTuple):
    chunk: Chunk
    read: _Read | None  # None: earlier keys are read apart, and the chunk's own as they are given
    before: torch.Tensor  # int64 [kept]: slots of those
    lost: bool  # whether they are lost as the chunk's own are stored: a ring wraps
    mask: torch.Tensor  # [tokens, keys], 0 where seen and -inf elsewhere


class _Step(NamedTuple):
    """What a step's tokens are to the layers of one block table."""

    tokens: torch.Tensor  # int64: rows that are stored
    slots: torch.Tensor  # int64: where
    prefills: list[_Prefill]
    decodes: list[_Read]


class TorchAttention:
    """Stores the step's keys and values, then attends. `begin` once a step, `attend` a layer."""

    def __init__(
        self,
        table: Table,
        pools: list[KVPool],
        dtype: torch.dtype,
        marks: Sequence[torch.Tensor] = (),
        views: Sequence[int] = (),
    ) -> None:
        """`marks`: landmarks of each layer's pages, where the table selects pages. `views`: which
        of the table's each layer sees; all the first, if not told."""
        self._table = table
        self._pools = pools
        self._views = views or [0] * len(pools)
        self._selection: Selection | None = None
        if isinstance(table, Selected):
            self._selection = Selection(table, marks, torch_ops)
        self._dtype = dtype
        self._device = pools[0].k.device
        self._scratch: torch.Tensor | None = None

    def begin(self, work: Work) -> None:
        """Look up where the step's tokens go and where its requests' keys are."""
        table = self._table
        move(slot_data(self._pools), table.moves)
        if self._selection:
            self._selection.begin(work)
        self._steps = [self._step(view, work) for view in table.views]
        self._scratch = self._rows_for([read for step in self._steps for read in step.decodes])

    def _step(self, view: View, work: Work) -> _Step:
        table = view.table
        requests, lengths = work.decoding
        slots = table.step_slots(work, table.owned.rows(requests), lengths)
        return _Step(
            torch.from_numpy(np.flatnonzero(slots >= 0)).to(self._device),
            torch.from_numpy(slots[slots >= 0]).to(self._device),
            [self._prefill(view, chunk) for chunk in work.chunks],
            [self._read(view, request, length) for request, length in work.decodes],
        )

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store k and v, and attend. q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads,
        head_dim], rows in the order of the step's `Work`. Returns the shape of q."""
        pool, step = self._pools[layer], self._steps[self._views[layer]]
        earlier = [
            gather(pool, prefill.before, self._dtype) if prefill.lost else None
            for prefill in step.prefills
        ]
        store(pool, k[step.tokens], v[step.tokens], step.slots)
        out = torch.empty_like(q)
        row = 0
        for prefill, past in zip(step.prefills, earlier, strict=True):
            rows = slice(row, row + prefill.chunk.tokens)
            row = rows.stop
            if prefill.read:
                keys, values = dense(pool, prefill.read.span, prefill.read.keys, self._dtype)
            else:
                past = past or gather(pool, prefill.before, self._dtype)
                keys = torch.cat([past[0], k[rows].transpose(0, 1)], 1)
                values = torch.cat([past[1], v[rows].transpose(0, 1)], 1)
            out[rows] = causal(q[rows], keys, values, prefill.mask)
        if self._selection:
            self._selection.wrote(layer, pool)
            if row < len(q):
                out[row:] = self._selection.decode(layer, pool, q[row:])
            return out
        for i, read in enumerate(step.decodes, row):
            out[i] = decode(pool, read.span, read.keys, q[i], self._scratch, read.hidden)
        return out

    def _read(self, view: View, request: int, length: int) -> _Read:
        table = view.table
        kept = table.kept(request, length)
        if isinstance(kept, Run):
            return _Read(kept, kept.stop - kept.start)
        behind = max(0, length - view.window) if view.window else 0
        page, hidden = divmod(behind, table.unit_slots)
        heads = self._pools[0].kv_heads
        rows = np.arange(heads)[:, None] + kept[page:].astype(np.int64)[None, :] * heads
        keys = table.kept_tokens(length) - page * table.unit_slots
        return _Read(torch.from_numpy(rows.ravel()).to(self._device), keys, hidden)

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

    def _prefill(self, view: View, chunk: Chunk) -> _Prefill:
        table, ring = view.table, view.table.ring
        request, start, stop = chunk.request, chunk.start, chunk.start + chunk.tokens
        queries = np.arange(start, stop)[:, None]
        window, sinks = view.window, 0
        if ring and stop > ring.slots:
            window, sinks = ring.window, ring.sinks
            earlier, before = ring.kept_positions(start), table.kept_slots(request, start)
        elif window:
            earlier = np.arange(max(0, start - window + 1), start)
            before = table.slots(request, 0, start)[earlier]
        else:
            seen = np.arange(stop)[None, :] <= queries
            nothing = torch.empty(0, dtype=torch.int64)
            whole = self._read(view, request, stop)
            return _Prefill(chunk, whole, nothing, False, self._mask(seen))
        positions = np.concatenate([earlier, np.arange(start, stop)])[None, :]
        recent = (positions > queries - window) | (positions < sinks)
        seen = (positions <= queries) & recent
        slots = torch.from_numpy(before).to(self._device)
        return _Prefill(chunk, None, slots, ring is not None, self._mask(seen))

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
    if not scaled(pool):
        return read(pool, k, v, None, dtype)
    assert pool.side is not None
    return read(pool, k, v, codes(pool.side.flatten(3), span, keys), dtype)


def scaled(pool: KVPool) -> bool:
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
    if not scaled(pool):
        return read(pool, k, v, None, dtype)
    assert pool.side is not None
    side = pool.side.flatten(3)[pages, :, offsets].transpose(0, 1)
    return read(pool, k, v, side, dtype)


def decode(
    pool: KVPool,
    span: Span,
    keys: int,
    q: torch.Tensor,
    room: torch.Tensor | None = None,
    hidden: int = 0,
) -> torch.Tensor:
    """One query [heads, head_dim] over its keys but the first `hidden`; returns its shape.

    Of int8 only the codes are converted: the scales join scores and weights, D times fewer.
    """
    packed = q.view(pool.kv_heads, -1, pool.head_dim)  # [kv_heads, group, head_dim]
    if pool.storage != "int8":
        if room is None:
            k, v = dense(pool, span, keys, q.dtype)
        else:
            k, v = codes(pool.k, span, keys, room[0]), codes(pool.v, span, keys, room[1])
        k, v = k[:, hidden:], v[:, hidden:]
        return scaled_dot_product_attention(packed[None], k[None], v[None]).view(q.shape)
    assert pool.side is not None
    k, v = codes(pool.k, span, keys)[:, hidden:], codes(pool.v, span, keys)[:, hidden:]
    side = codes(pool.side, span, keys)[:, hidden:].to(q.dtype)
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
