"""What ``decode`` must do, in plain torch: one sequence and one head group at a time, fp64."""

from __future__ import annotations

import math

import torch

from ..pool import KVPool
from ..store.reference import dequantise


def visible_positions(length: int, window: int, sinks: int) -> list[int]:
    """Positions the last of ``length`` tokens sees: the sinks and the last ``window``."""
    return [p for p in range(length) if window == 0 or p < sinks or p >= length - window]


def ring_slot(position: int, window: int, sinks: int) -> int:
    return position if position < sinks else sinks + (position - sinks) % window


def rows_of(
    pool: KVPool, index: list[int], table: torch.Tensor | None, start: int
) -> tuple[list[int], list[int]]:
    """Page and offset of each key index of a sequence."""
    if table is None:
        return [0] * len(index), [start + i for i in index]
    size = pool.page_size
    return [int(table[i // size]) for i in index], [i % size for i in index]


def decode(
    q: torch.Tensor,
    pool: KVPool,
    lengths: torch.Tensor,
    *,
    table: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    scale: float | None = None,
    window: int = 0,
    sinks: int = 0,
    ring: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, q_heads, head_dim = q.shape
    heads = q_heads // pool.kv_heads
    scale = head_dim**-0.5 if scale is None else scale
    k, v = (read.double() for read in dequantise(pool))
    out = torch.zeros(q.shape, dtype=torch.float64)
    lse = torch.full((batch, q_heads), -math.inf)
    for b in range(batch):
        for h in range(pool.kv_heads):
            length = int(lengths[b, h] if lengths.dim() == 2 else lengths[b])
            index = visible_positions(length, window, sinks)
            if ring:
                index = [ring_slot(p, window, sinks) for p in index]
            if not index:
                continue
            pages = None if table is None else table[b, h] if table.dim() == 3 else table[b]
            page, offset = rows_of(pool, index, pages, 0 if start is None else int(start[b]))
            group = slice(h * heads, (h + 1) * heads)
            scores = q[b, group].double() @ k[page, h, offset].T * scale  # [heads, keys]
            out[b, group] = scores.softmax(-1) @ v[page, h, offset]
            lse[b, group] = scores.logsumexp(-1) / math.log(2)
    return out.to(q.dtype), lse
