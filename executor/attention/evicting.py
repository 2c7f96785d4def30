"""Attention that keeps recent tokens and heavy hitters, head by head (Zhang et al., H2O).

A token's score is the attention it has drawn so far, summed over queries and the query heads of its
group. The newest half of what is kept is a ring; who leaves it stays, among the other half, only if
it has drawn more than the least of them. So no place needs to know whose position it holds: keys
are stored rotated, and a softmax doesn't care about order.

Decodes attend and score in kernels where they are asked for; chunks and evictions are in torch.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from executor.attention.torch_path import read, scaled, store
from executor.cache.contiguous import Contiguous
from executor.cache.seats import Rows
from executor.cache.table import Slots, Table
from executor.cache.tensors import move, slot_data
from executor.kernels.decode import decode
from executor.kernels.pool import KVPool, allocate
from executor.kernels.topk import accumulate_mass
from executor.work import Work
from sim.plan import Chunk


class _Chunk(NamedTuple):
    tokens: int
    old: torch.Tensor  # int64 [kept]: slots of what is there, by place
    new: torch.Tensor  # int64 [tokens]: slots of the chunk's own; -1 for those behind the ring
    heavy: torch.Tensor  # int64 [heavy hitters]: their slots; empty while all are kept
    leaving: torch.Tensor  # int64: of old and new tokens, those that compete for these


class EvictingAttention:
    """Stores, attends, and evicts. `begin` once a step, `attend` a layer."""

    def __init__(
        self,
        table: Table,
        pools: Sequence[KVPool],
        scores: Sequence[torch.Tensor],
        dtype: torch.dtype,
        kernels: bool = False,
    ) -> None:
        """scores: fp32 [pages, kv_heads, page_size] of each layer."""
        assert table.ring is not None
        self._table, self._ring = table, table.ring
        self._pools, self._scores, self._dtype = pools, scores, dtype
        self._device = pools[0].k.device
        self._kernels = kernels

    def begin(self, work: Work) -> None:
        """Look up where the step's tokens go, what is kept, and who competes."""
        table, ring = self._table, self._ring
        move([*slot_data(self._pools), *self._scores], table.moves)
        self._chunks = [self._chunk(chunk) for chunk in work.chunks]
        requests, lengths = work.decoding
        rows, kept = table.owned.rows(requests), np.minimum(lengths, ring.slots)
        places = np.arange(int(kept.max(initial=0)))
        inside = places < kept[:, None]
        slots = table.at(rows[:, None], np.where(inside, places, 0))
        self._inside, self._slots = self._sent(inside), self._sent(slots)
        self._newest = self._sent(table.last_slots(rows, lengths))
        full = np.flatnonzero(lengths > ring.slots)
        self._heavy = self._sent(self._heavy_slots(rows[full]))
        self._leaving = self._newest[self._sent(full)]
        if self._kernels:
            self._address(rows, kept, ring.places(lengths - 1))

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads, head_dim], rows in the order of
        the step's `Work`. Returns the shape of q."""
        out = torch.empty_like(q)
        row = 0
        for chunk in self._chunks:
            rows = slice(row, row + chunk.tokens)
            row = rows.stop
            out[rows] = self._prefill(layer, chunk, q[rows], k[rows], v[rows])
        if row < len(q):
            out[row:] = self._decode(layer, q[row:], k[row:], v[row:])
        return out

    def _address(self, rows: Rows, kept: Slots, newest: Slots) -> None:
        """What kernels are given: page tables or first slots, and lengths."""
        table = self._table
        self._kept, self._at = (self._sent(one.astype(np.int32)) for one in (kept, newest))
        self._pages: torch.Tensor | None = None
        self._starts: torch.Tensor | None = None
        if isinstance(table, Contiguous):
            self._starts = self._sent(table.starts(rows))
        else:
            pages = np.empty((len(rows), table.owned.width), dtype=np.int32)
            table.owned.fill(rows, pages)
            self._pages = self._sent(pages)
        self._longest = int(kept.max(initial=0))

    def _heavy_slots(self, rows: Rows) -> Slots:
        return self._table.at(rows[:, None], np.arange(self._ring.sinks))

    def _chunk(self, chunk: Chunk) -> _Chunk:
        table, ring = self._table, self._ring
        start, stop = chunk.start, chunk.start + chunk.tokens
        rows = table.owned.rows([chunk.request])
        old = table.at(rows, np.arange(min(start, ring.slots)))
        new = table.slots(chunk.request, start, stop)
        heavy, leaving = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if stop > ring.slots:
            heavy = self._heavy_slots(rows)[0]
            new[np.arange(start, stop) < stop - ring.window] = -1
            # Of the ring's places, positions; heavy hitters have left it before.
            positions = np.arange(start)
            if start > ring.slots:
                positions = np.full(ring.slots, -1)
                recent = np.arange(start - ring.window, start)
                positions[ring.places(recent)] = recent
            positions = np.concatenate([positions, np.arange(start, stop)])
            leaving = np.flatnonzero(positions < stop - ring.window)
        sent = (self._sent(one) for one in (old, new, heavy, leaving))
        return _Chunk(chunk.tokens, *sent)

    def _prefill(
        self, layer: int, chunk: _Chunk, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        pool, scores = self._pools[layer], self._scores[layer]
        past = len(chunk.old)
        there = [at(data, chunk.old) for data in slot_data([pool])]
        keys, values = _read(pool, there, self._dtype)
        keys = torch.cat([keys, k.transpose(0, 1)], 1)
        values = torch.cat([values, v.transpose(0, 1)], 1)
        seen = torch.ones(len(q), past + len(q), dtype=torch.bool, device=q.device).tril(past)
        # [kv_heads, group, n, dim]
        grouped = q.transpose(0, 1).reshape(pool.kv_heads, -1, len(q), pool.head_dim)
        weights = _weights(grouped, keys[:, None], seen)
        out = (weights.to(q.dtype) @ values[:, None]).flatten(0, 1).transpose(0, 1)
        drawn = weights.sum((1, 2))  # [kv_heads, keys]
        drawn[:, :past] += at(scores, chunk.old)

        # What is new, as the pool stores it.
        fresh = allocate(
            1,
            pool.kv_heads,
            len(q),
            pool.head_dim,
            storage=pool.storage,
            dtype=pool.k.dtype,
            scale=torch.float16 if pool.side is None else pool.side.dtype,
            device=q.device,
        )
        if pool.storage == "fp8":
            assert fresh.side is not None
            assert pool.side is not None
            fresh.side.copy_(pool.side)
        store(fresh, k, v, torch.arange(len(q), device=q.device))
        stays = chunk.new >= 0
        chosen = drawn[:, chunk.leaving].sort(dim=-1, descending=True, stable=True).indices
        best = chunk.leaving[chosen[:, : len(chunk.heavy)]]  # [kv_heads, heavy]
        head = torch.arange(pool.kv_heads, device=q.device)[:, None]
        kept = [*zip(slot_data([pool]), slot_data([fresh]), there, strict=True)]
        whole = [(data, torch.cat([old, new[0]], 1)) for data, new, old in kept]
        for data, all_ in [*whole, (scores, drawn)]:
            put(data, chunk.new[stays], all_[:, past:][:, stays])
            put(data, chunk.heavy, all_[head, best])
        # Old tokens that are where they were: what they have drawn by now.
        still = torch.ones(past, dtype=torch.bool, device=q.device)
        still[chunk.leaving[chunk.leaving < past]] = False
        put(scores, chunk.old[still], drawn[:, :past][:, still])
        return out

    def _decode(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        pool, scores = self._pools[layer], self._scores[layer]
        self._make_way(pool, scores)
        store(pool, k, v, self._newest)
        if self._kernels:
            most, pages, starts = self._longest, self._pages, self._starts
            out, lse = decode(q, pool, self._kept, max_length=most, table=pages, start=starts)
            accumulate_mass(
                q,
                lse,
                pool,
                self._kept,
                scores,
                max_length=most,
                table=pages,
                start=starts,
                newest=self._at,
            )
            return out
        put(scores, self._newest, torch.zeros(pool.kv_heads, len(q), device=q.device))
        count, width = self._slots.shape
        there = [at(data, self._slots.flatten()) for data in slot_data([pool])]
        there = [data.reshape(-1, count, width, *data.shape[2:]).transpose(0, 1) for data in there]
        keys, values = _read(pool, there, self._dtype)  # [n, kv_heads, width, dim]
        values = values.masked_fill(~self._inside[:, None, :, None], 0)
        grouped = q.reshape(len(q), pool.kv_heads, -1, pool.head_dim)  # [n, kv_heads, group, dim]
        weights = _weights(grouped, keys, self._inside[:, None, None])
        drawn = weights.sum(2).transpose(0, 1)[:, self._inside]  # [kv_heads, all that are kept]
        slots = self._slots[self._inside]
        put(scores, slots, at(scores, slots) + drawn)
        return (weights.to(q.dtype) @ values).view_as(q)

    def _make_way(self, pool: KVPool, scores: torch.Tensor) -> None:
        """Who leaves the ring takes the place of the heavy hitter that has drawn least, if it has
        drawn more; head by head."""
        if not self._heavy.numel():
            return
        count, heavy = self._heavy.shape
        rivals = at(scores, self._heavy.flatten()).reshape(-1, count, heavy)
        least, which = rivals.min(-1)  # [kv_heads, n]
        heads, rows = torch.nonzero(at(scores, self._leaving) > least, as_tuple=True)
        source, target = self._leaving[rows], self._heavy[rows, which[heads, rows]]
        for data in (*slot_data([pool]), scores):
            page = data.shape[2]
            moved = data[source // page, heads, source % page]
            data[target // page, heads, target % page] = moved

    def _sent(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)


def at(data: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """[kv_heads, slots, ...] of data [pages, kv_heads, page_size, ...]."""
    page = data.shape[2]
    return data[slots // page, :, slots % page].transpose(0, 1)


def put(data: torch.Tensor, slots: torch.Tensor, values: torch.Tensor) -> None:
    """Write values [kv_heads, slots, ...] there."""
    page = data.shape[2]
    data[slots // page, :, slots % page] = values.transpose(0, 1)


def _weights(q: torch.Tensor, keys: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Softmax weights fp32, 0 where not seen; q is [..., queries, dim], keys [..., keys, dim]."""
    scores: torch.Tensor = (q @ keys.transpose(-1, -2)).float() * q.shape[-1] ** -0.5
    # Unwritten keys may hold NaN.
    return scores.masked_fill(~seen, float("-inf")).softmax(-1)


def _read(
    pool: KVPool, there: list[torch.Tensor], dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of what `at` gave of the pool's data."""
    side = there[2].flatten(there[0].dim() - 1) if scaled(pool) else None
    return read(pool, there[0], there[1], side, dtype)
