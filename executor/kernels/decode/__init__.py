"""Decode attention: one query token for each sequence over its cached keys."""

from __future__ import annotations

from math import gcd
from typing import Literal

import torch
import triton

from ..configs import Config, decode_config, device_arch, multiprocessors, pick_splits
from ..pool import KVPool
from .kernel import LOG2E, combine_kernel, decode_kernel
from .kernel_int4 import decode_int4_kernel

Window = Literal["none", "full", "ring"]


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
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    splits: int | None = None,
    config: Config | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [batch, q_heads, head_dim] in q's type and base-2 log-sum-exp [batch, q_heads] fp32.

    q        [batch, q_heads, head_dim], q_heads a multiple of the pool's kv_heads
    lengths  int32 [batch] or [batch, kv_heads]: keys so far, the query's own included; 0 gives 0
    table    int32 [batch, max_pages], or [batch, kv_heads, max_pages] where heads chose their own
             pages; entries beyond the length (or skipped by the window) are never read
    start    int64 [batch]: first slot of each sequence in a pool of one page (instead of table)
    window   keys a query sees, its own included, besides the first ``sinks``; 0: all of them.
             ring: the pool holds only sinks + window slots a sequence, position p at p while
             p < sinks and at sinks + (p - sinks) % window after; otherwise every position is kept
    max_length  an upper bound of lengths known to the host: no device synchronisation
    """
    batch, q_heads, head_dim = q.shape
    heads = query_group(q, pool)
    check_addresses(pool, table, start, batch)
    if window < 0 or sinks < 0 or (window == 0 and (sinks > 0 or ring)):
        raise ValueError(f"window {window}, sinks {sinks}, ring {ring}")
    out = torch.empty_like(q) if out is None else out
    if lse is None:
        lse = torch.empty(batch, q_heads, dtype=torch.float32, device=q.device)
    if batch == 0:
        return out, lse

    config = config or decode_config(device_arch(q.device), pool.storage, head_dim, q.dtype)
    if splits is None:
        keys = min(max_length, window + sinks) if window else max_length
        slots = multiprocessors(q.device) * config.resident
        splits = pick_splits(batch * pool.kv_heads, slots, -(-keys // config.block_n))
    o_part, lse_part = out, lse
    strides = (*out.stride()[:2], 0, *lse.stride(), 0)
    if splits > 1:
        o_part = torch.empty(batch, q_heads, splits, head_dim, dtype=torch.float32, device=q.device)
        lse_part = torch.empty(batch, q_heads, splits, dtype=torch.float32, device=q.device)
        strides = (*o_part.stride()[:3], *lse_part.stride())

    int4 = pool.storage == "int4"
    side = pool.side_strides
    mode: Window = "none" if window == 0 else "ring" if ring else "full"
    table_strides = (0, 0)
    if table is not None:
        table_strides = (table.stride(0), table.stride(1) if table.dim() == 3 else 0)
    lengths_strides = (lengths.stride(0), lengths.stride(1) if lengths.dim() == 2 else 0)
    tensors = (pool.k, pool.v, pool.k_scale, pool.v_scale)
    zeros = (pool.k_zero, pool.v_zero) if int4 else ()
    width = triton.next_power_of_2(head_dim // 2 if int4 else head_dim)
    common = {
        "HEADS": heads,
        "GP": max(16, triton.next_power_of_2(heads)),
        "D": head_dim,
        "PAGED": table is not None,
        "PAGE": pool.page_size if table is not None else 0,
        "WINDOW": mode,
        "SPLITS": splits,
        "BN": config.block_n,
        "STAGES": config.stages,
        "num_warps": config.warps,
        "num_stages": config.stages,
    }
    if int4:
        align = gcd(16, *pool.k.stride()[:3])
        own = {"HP": width, "GROUP_SIZE": pool.group, "ALIGN": align}
    else:
        own = {"DP": width, "STORAGE": pool.storage}
    (decode_int4_kernel if int4 else decode_kernel)[(batch, pool.kv_heads, splits)](
        q,
        *tensors,
        *zeros,
        table,
        start,
        lengths,
        o_part,
        lse_part,
        (head_dim**-0.5 if scale is None else scale) * LOG2E.value,
        sinks,
        window,
        *q.stride()[:2],
        *pool.k.stride()[:3],
        *(side if int4 else side[:3]),
        *table_strides,
        *lengths_strides,
        *strides,
        **common,
        **own,
    )
    if splits > 1:
        combine_kernel[(batch, q_heads)](
            o_part,
            lse_part,
            out,
            lse,
            *o_part.stride()[:3],
            *lse_part.stride(),
            *out.stride()[:2],
            *lse.stride(),
            D=head_dim,
            DP=triton.next_power_of_2(head_dim),
            SPLITS=splits,
            SP=triton.next_power_of_2(splits),
            num_warps=4,
        )
    return out, lse


def query_group(q: torch.Tensor, pool: KVPool) -> int:
    """Query heads that share a key head."""
    q_heads, head_dim = q.shape[-2:]
    if head_dim != pool.head_dim or q.stride(-1) != 1:
        raise ValueError(f"q must end in a contiguous head of {pool.head_dim}: {q.shape}")
    if q_heads % pool.kv_heads:
        raise ValueError(f"{q_heads} query heads do not divide among {pool.kv_heads} kv heads")
    return q_heads // pool.kv_heads


def check_addresses(
    pool: KVPool, table: torch.Tensor | None, start: torch.Tensor | None, batch: int
) -> None:
    if (table is None) == (start is None):
        raise ValueError("give a page table or start slots, not both")
    if start is not None and (pool.pages != 1 or start.dtype != torch.int64):
        raise ValueError("start slots are int64 and need a pool of one page")
    given = start if table is None else table
    assert given is not None
    if given.shape[0] != batch or given.stride(-1) != 1:
        raise ValueError(f"table or start must have {batch} contiguous rows: {given.shape}")
