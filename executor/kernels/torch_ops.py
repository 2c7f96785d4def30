"""What reading chosen pages takes without Triton: a CPU has neither its compiler nor time for its
interpreter.

Ranking and decode attention are called as those of ``executor.kernels`` are; other attention on a
CPU is ``executor.attention.torch_path``.
"""

from __future__ import annotations

import math

import torch

from .check import decode_arguments, score_arguments
from .pool import KVPool
from .store.reference import read_back
from .topk import select_pages

__all__ = ["build_landmarks", "decode", "page_scores", "select_pages"]


def decode(
    q: torch.Tensor,
    pool: KVPool,
    lengths: torch.Tensor,
    *,
    max_length: int,
    table: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``executor.kernels.decode`` over pages; native 16-bit scores are rounded to q's type.

    A group's query heads are rows of one matrix product; pages are gathered as whole rows.
    """
    batch, q_heads, head_dim = q.shape
    heads = decode_arguments(q, pool, table, None, 0, 0, False)
    grouped = (q * head_dim**-0.5).view(batch * pool.kv_heads, heads, head_dim)
    visible = lengths if lengths.dim() == 2 else lengths[:, None].expand(-1, pool.kv_heads)
    # Entries beyond a shorter sequence's length may be anything.
    count = -(-max_length // pool.page_size)
    pages = table[..., :count].long().clamp(0, pool.pages - 1)
    side = None if pool.storage == "fp8" or pool.side is None else _gather(pool.side, pages)
    k = _values(pool, _gather(pool.codes[0], pages), side, 0).flatten(0, 1)
    v = _values(pool, _gather(pool.codes[1], pages), side, 1).flatten(0, 1)
    scores = torch.bmm(grouped.to(k.dtype), k.mT).float()  # [batch x kv_heads, heads, keys]
    hidden = torch.arange(k.shape[1]) >= visible.flatten()[:, None]
    scores.masked_fill_(hidden[:, None], -math.inf)
    lse = scores.logsumexp(-1)
    # Unwritten slots may hold NaN; a weight of 0 does not silence it.
    weights = scores.softmax(-1).masked_fill_(hidden[:, None], 0)
    out = torch.bmm(weights.to(v.dtype), v.masked_fill(hidden[..., None], 0))
    return out.view_as(q).to(q.dtype), (lse / math.log(2)).view(batch, q_heads)


def build_landmarks(
    pool: KVPool, pages: torch.Tensor, fill: torch.Tensor, marks: torch.Tensor
) -> torch.Tensor:
    side = None if pool.side is None or pool.storage == "fp8" else pool.side[pages.long()]
    keys = _values(pool, pool.codes[0][pages.long()], side, 0).float()
    unwritten = (torch.arange(pool.page_size) >= fill[:, None])[:, None, :, None]
    low = keys.masked_fill(unwritten, math.inf).amin(2)
    high = keys.masked_fill(unwritten, -math.inf).amax(2)
    marks[pages.long(), :, 0] = _outwards(low, False, marks.dtype)
    marks[pages.long(), :, 1] = _outwards(high, True, marks.dtype)
    return marks


def _outwards(x: torch.Tensor, up: bool, dtype: torch.dtype) -> torch.Tensor:
    """The marks' nearest bf16 that is not inside: bounds must stay bounds."""
    if dtype != torch.bfloat16:
        return x.to(dtype)
    bits = x.view(torch.int32)
    away = (bits >= 0 if up else bits < 0) & (bits & 0xFFFF != 0)
    return (torch.where(away, bits + 0x10000, bits) & -0x10000).view(torch.float32).to(dtype)


def page_scores(
    q: torch.Tensor, marks: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, page_size: int
) -> torch.Tensor:
    heads = score_arguments(q, marks)
    mark = marks[table.long()].float().permute(3, 0, 2, 4, 1)  # [2, batch, kv_heads, D, pages]
    grouped = q.float().view(len(q), marks.shape[1], heads, q.shape[-1])
    bound = (grouped.clamp(max=0) @ mark[0] + grouped.clamp(min=0) @ mark[1]).amax(2)
    beyond = torch.arange(table.shape[1]) * page_size >= lengths[:, None]
    return bound.masked_fill(beyond[:, None], -math.inf)


def _values(
    pool: KVPool, codes: torch.Tensor, side: torch.Tensor | None, which: int
) -> torch.Tensor:
    if pool.storage == "native":
        return codes
    if pool.storage == "fp8":
        codes = codes.view(torch.float8_e4m3fn)
    return read_back(pool, codes, side, which)


def _gather(tensor: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
    """[n, kv_heads, keys, ...] of pages [n, count] or [n, kv_heads, count]."""
    kv_heads = tensor.shape[1]
    head = torch.arange(kv_heads)[:, None]
    if pages.dim() == 2:
        pages = pages[:, None].expand(-1, kv_heads, -1)
    if tensor.is_contiguous():
        row = tensor.flatten(0, 1).flatten(1).index_select(0, (pages * kv_heads + head).flatten())
        return row.view(*pages.shape[:2], -1, *tensor.shape[3:])
    return tensor[pages, head].flatten(2, 3)
