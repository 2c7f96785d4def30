"""What ``prefill`` must do, in plain torch: each sequence's positions written out, fp32."""

from __future__ import annotations

import math

import torch

from ..decode.reference import ring_slot, rows_of
from ..pool import KVPool
from ..store.reference import dequantise


def prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    pool: KVPool,
    cu: torch.Tensor,
    past: torch.Tensor,
    *,
    table: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    scale: float | None = None,
    window: int = 0,
    sinks: int = 0,
    ring: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    heads = q.shape[1] // pool.kv_heads
    scale = q.shape[2] ** -0.5 if scale is None else scale
    cached_k, cached_v = dequantise(pool)
    out = torch.zeros(q.shape, dtype=torch.float32)
    lse = torch.full(q.shape[:2], -math.inf)
    for b in range(len(past)):
        first, last, old = int(cu[b]), int(cu[b + 1]), int(past[b])
        position = torch.arange(old + last - first)
        query = position[old:, None]
        seen = position <= query  # [new, old + new]
        if window:
            seen &= (position < sinks) | (position > query - window)
        # Positions that a ring has overwritten are those that no query sees any more.
        kept = seen.any(0)[:old].nonzero().flatten().tolist() if last > first else []
        index = [ring_slot(p, window, sinks) for p in kept] if ring else kept
        rows = None if table is None else table[b]
        page, offset = rows_of(pool, index, rows, 0 if start is None else int(start[b]))
        seen = torch.cat([seen[:, kept], seen[:, old:]], 1)
        for h in range(q.shape[1]):
            g = h // heads
            keys = torch.cat([cached_k[page, g, offset], k[first:last, g].float()])
            values = torch.cat([cached_v[page, g, offset], v[first:last, g].float()])
            scores = q[first:last, h].float() @ keys.T * scale
            scores = scores.masked_fill(~seen, -math.inf)
            out[first:last, h] = scores.softmax(-1) @ values
            lse[first:last, h] = scores.logsumexp(-1) / math.log(2)
    return out.to(q.dtype), lse
