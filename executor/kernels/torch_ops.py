"""The same operations without Triton, for running on a CPU: no compiler, no GPU, no interpreter.

Attention packs a group's query heads into rows of one matrix product, and gathers pages as whole
rows, a few sequences at a time, so that the copy is still in the cache when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from .check import decode_arguments, mass_arguments, prefill_arguments, score_arguments
from .configs import ceil_div
from .pool import KVPool
from .store.reference import read_back, store
from .topk import select, select_pages

__all__ = [
    "accumulate_mass",
    "build_landmarks",
    "copy",
    "decode",
    "gather",
    "page_scores",
    "prefill",
    "scatter",
    "select",
    "select_pages",
    "store",
]

CHUNK_BYTES = 4 << 20  # gathered keys and values at a time: about what a core's caches keep


def decode(
    q: torch.Tensor,
    pool: KVPool,
    lengths: torch.Tensor,
    *,
    max_length: int,
    table: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    scale: float | None = None,
    window: int = 0,
    sinks: int = 0,
    ring: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``executor.kernels.decode``; native 16-bit scores are rounded to q's type."""
    batch, q_heads, head_dim = q.shape
    heads = decode_arguments(q, pool, table, start, window, sinks, ring)
    scale = head_dim**-0.5 if scale is None else scale
    grouped = (q * scale).view(batch * pool.kv_heads, heads, head_dim)
    out = torch.zeros_like(grouped)
    peak = torch.full(grouped.shape[:2], -math.inf)  # greatest score of each query
    share = torch.ones_like(peak)  # its weight
    visible = lengths if lengths.dim() == 2 else lengths[:, None].expand(-1, pool.kv_heads)
    if ring:
        visible = visible.clamp(max=window + sinks)
    kept = visible.flatten()[:, None]
    for rows, k, v, padded in _chunks(pool, visible, table, start, 0 if ring else window, sinks):
        scores = _scores(grouped[rows].to(k.dtype), k)  # [rows, heads, keys]
        if padded:
            hidden = torch.arange(k.shape[1]) >= kept[rows]
            scores.masked_fill_(hidden[:, None], -math.inf)
            weights = scores.softmax(-1).masked_fill_(hidden[:, None], 0)
            # Unwritten slots may hold NaN; a weight of 0 does not silence it.
            v = v.masked_fill(hidden[..., None], 0)
        else:
            weights = scores.softmax(-1)
        peak[rows] = scores.amax(-1)
        share[rows] = weights.amax(-1)
        out[rows] = torch.bmm(weights.to(v.dtype), v)
    # The greatest weight is exp(greatest score - lse).
    lse = torch.where(peak > -math.inf, (peak - share.log()) / math.log(2), -math.inf)
    return out.view_as(q), lse.view(batch, q_heads)


def _scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """fp32 q·k. Keys read in place, in fp32, are faster on the left; all else on the right."""
    if k.dtype == torch.float32 and not k.is_contiguous():
        return torch.bmm(k, q.mT).mT.contiguous()
    return torch.bmm(q, k.mT).float()


def _chunks(
    pool: KVPool,
    visible: torch.Tensor,
    table: torch.Tensor | None,
    start: torch.Tensor | None,
    window: int,
    sinks: int,
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor, bool]]:
    """Rows (a sequence's kv head each), their keys and values [rows, keys, head_dim], and whether
    some of those are padding. Sequences without keys are left out."""
    batch = len(visible)
    longest = visible.amax(1).tolist()
    shortest = visible.amin(1).tolist()
    # Contiguous fp32 is best read where it is; 16-bit products want several sequences at once.
    alone = window > 0 or (table is None and pool.k.dtype == torch.float32)
    token_bytes = 2 * pool.kv_heads * pool.k.shape[-1] * pool.k.element_size()
    end = 0
    while end < batch:
        first, keys = end, longest[end]
        end += 1
        while not alone and end < batch:
            more = max(keys, longest[end])
            if (end + 1 - first) * more * token_bytes > CHUNK_BYTES:
                break
            end, keys = end + 1, more
        if keys == 0:
            continue
        rows = slice(first, end)
        if table is None or window:
            parts = [
                _sequence(pool, longest[b], b, table, start, window, sinks)
                for b in range(first, end)
            ]
            k, v = (_stack(pieces) for pieces in zip(*parts, strict=True))
        else:
            # Entries beyond a shorter sequence's length may be anything.
            pages = table[rows, ..., : ceil_div(keys, pool.page_size)].long()
            pages = pages.clamp(0, pool.pages - 1)
            side = None if pool.storage == "fp8" or pool.side is None else _gather(pool.side, pages)
            k = _values(pool, _gather(pool.codes[0], pages), side, 0)
            v = _values(pool, _gather(pool.codes[1], pages), side, 1)
        # A window's sequence comes alone and with nothing but its visible keys.
        padded = not window and min(shortest[rows]) < k.shape[2]
        heads = slice(rows.start * pool.kv_heads, rows.stop * pool.kv_heads)
        yield heads, k.flatten(0, 1), v.flatten(0, 1), padded


def _stack(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """[n, kv_heads, longest, head_dim] of pieces of different lengths; the rest is left unset."""
    if len(parts) == 1:
        return parts[0][None]
    longest = max(part.shape[1] for part in parts)
    whole = parts[0].new_empty(len(parts), parts[0].shape[0], longest, parts[0].shape[2])
    for row, part in zip(whole, parts, strict=True):
        row[:, : part.shape[1]] = part
    return whole


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


def _sequence(
    pool: KVPool,
    length: int,
    b: int,
    table: torch.Tensor | None,
    start: torch.Tensor | None,
    window: int,
    sinks: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Visible keys and values [kv_heads, keys, head_dim] of one sequence."""
    if table is None:
        assert start is not None
        base = int(start[b])
        # A slice where nothing is skipped: contiguous keys are read where they are.
        skips = 0 < window < length - sinks
        where = base + _positions(length, window, sinks) if skips else slice(base, base + length)
        k, v = (codes[0, :, where] for codes in pool.codes)
        side = None if pool.side is None or pool.storage == "fp8" else pool.side[0, :, where]
    else:
        index = _positions(length, window, sinks)
        page, offset = table[b, index // pool.page_size].long(), index % pool.page_size
        k, v = (codes[page, :, offset].transpose(0, 1) for codes in pool.codes)
        side = None
        if pool.side is not None and pool.storage != "fp8":
            side = pool.side[page, :, offset].transpose(0, 1)
    return _values(pool, k, side, 0), _values(pool, v, side, 1)


def _positions(length: int, window: int, sinks: int) -> torch.Tensor:
    """Those of ``length`` positions that a window shows to the last of them."""
    if window == 0 or length <= window + sinks:
        return torch.arange(length)
    return torch.cat([torch.arange(sinks), torch.arange(length - window, length)])


def prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    pool: KVPool,
    cu: torch.Tensor,
    past: torch.Tensor,
    *,
    max_new: int,
    max_past: int,
    table: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    scale: float | None = None,
    window: int = 0,
    sinks: int = 0,
    ring: bool = False,
) -> tuple[torch.Tensor, None]:
    """As ``executor.kernels.prefill``, without its log-sum-exp."""
    prefill_arguments(q, k, v, pool, past, table, start, window, sinks, ring)
    out = torch.empty_like(q)
    for b in range(len(past)):
        new, old = slice(int(cu[b]), int(cu[b + 1])), int(past[b])
        count = new.stop - new.start
        if count == 0:
            continue
        held = min(old, window + sinks) if ring else old
        keys, values = _sequence(pool, held, b, table, start, 0, 0)
        slot = torch.arange(held)
        if ring:
            slot = torch.where(slot < sinks, slot, old - 1 - (old - 1 - slot) % window)
        position = torch.cat([slot, old + torch.arange(count)])
        query = old + torch.arange(count)[:, None]
        seen = position <= query
        if window:
            seen &= (position < sinks) | (position > query - window)
        out[new] = scaled_dot_product_attention(
            q[new].transpose(0, 1)[None],
            torch.cat([keys.to(k.dtype), k[new].transpose(0, 1)], 1)[None],
            torch.cat([values.to(v.dtype), v[new].transpose(0, 1)], 1)[None],
            attn_mask=seen,
            scale=scale,
            enable_gqa=True,
        )[0].transpose(0, 1)
    return out, None


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


def accumulate_mass(
    q: torch.Tensor,
    lse: torch.Tensor,
    pool: KVPool,
    lengths: torch.Tensor,
    mass: torch.Tensor,
    *,
    max_length: int,
    table: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    scale: float | None = None,
) -> None:
    heads = mass_arguments(q, pool, mass, table, start)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    grouped = q.float().view(len(q), pool.kv_heads, heads, q.shape[-1]) * scale
    for b, length in enumerate(lengths.tolist()):
        if length == 0:
            continue
        keys = _sequence(pool, length, b, table, start, 0, 0)[0].float()
        total = lse[b].view(pool.kv_heads, -1, 1) * math.log(2)
        weight = torch.exp(grouped[b] @ keys.mT - total).sum(1)  # [kv_heads, keys]
        index = torch.arange(length)
        if table is None:
            assert start is not None
            page, offset = torch.zeros_like(index), int(start[b]) + index
        else:
            page, offset = table[b, index // pool.page_size].long(), index % pool.page_size
        mass[page[-1], :, offset[-1]] = 0
        mass[page, :, offset] += weight.T


def copy(tensor: torch.Tensor, pairs: torch.Tensor) -> None:
    tensor[pairs[:, 1]] = tensor[pairs[:, 0]]


def gather(tensor: torch.Tensor, pages: torch.Tensor, staging: torch.Tensor) -> None:
    staging[: len(pages)] = tensor[pages]


def scatter(staging: torch.Tensor, tensor: torch.Tensor, pages: torch.Tensor) -> None:
    tensor[pages] = staging[: len(pages)]
