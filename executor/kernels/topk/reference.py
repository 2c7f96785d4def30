"""What the ranking kernels must do, in plain torch, fp32."""

from __future__ import annotations

import math

import torch

from ..decode.reference import rows_of
from ..pool import KVPool
from ..store.reference import dequantise


def landmarks(
    pool: KVPool, pages: torch.Tensor, fill: torch.Tensor, marks: torch.Tensor
) -> torch.Tensor:
    keys = dequantise(pool)[0]
    for page, count in zip(pages.tolist(), fill.tolist(), strict=True):
        written = keys[page, :, :count]
        marks[page, :, 0], marks[page, :, 1] = written.amin(1), written.amax(1)
    return marks


def page_scores(
    q: torch.Tensor,
    marks: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    page_size: int,
) -> torch.Tensor:
    batch, width = table.shape
    kv_heads = marks.shape[1]
    scores = torch.full((batch, kv_heads, width), -math.inf)
    for b in range(batch):
        pages = math.ceil(int(lengths[b]) / page_size)
        mark = marks[table[b, :pages].long()].float()  # [pages, kv_heads, 2, D]
        heads = q[b].float().view(kv_heads, -1, 1, 1, q.shape[-1])
        bound = (heads * mark.transpose(0, 1)[:, None]).amax(-2).sum(-1)  # [kv_heads, group, pages]
        scores[b, :, :pages] = bound.amax(1)
    return scores


def select(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Python's sort on (-score, index): the plainest statement of the order."""
    rows = []
    for row in scores.reshape(-1, scores.shape[-1]).tolist():
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        kept = sorted(i for i in order[:count] if row[i] > -math.inf)
        rows.append(kept + [-1] * (count - len(kept)))
    return torch.tensor(rows, dtype=torch.int32).view(*scores.shape[:-1], count)


def accumulate_mass(
    q: torch.Tensor,
    lse: torch.Tensor,
    pool: KVPool,
    lengths: torch.Tensor,
    mass: torch.Tensor,
    *,
    table: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    newest: torch.Tensor | None = None,
) -> None:
    keys = dequantise(pool)[0]
    heads = q.shape[1] // pool.kv_heads
    for b, length in enumerate(lengths.tolist()):
        rows = None if table is None else table[b]
        page, offset = rows_of(
            pool, list(range(length)), rows, 0 if start is None else int(start[b])
        )
        for h in range(pool.kv_heads):
            group = slice(h * heads, (h + 1) * heads)
            scores = q[b, group].float() @ keys[page, h, offset].T * q.shape[-1] ** -0.5
            weight = torch.exp(scores - lse[b, group, None] * math.log(2)).sum(0)
            old = mass[page, h, offset]
            if length:
                old[-1 if newest is None else int(newest[b])] = 0
            mass[page, h, offset] = old + weight
