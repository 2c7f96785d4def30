"""Decode attention: one query token for each sequence over its cached keys."""

from __future__ import annotations

from math import gcd
from typing import Any, Literal

import torch

from ..check import check_output, decode_arguments
from ..configs import (
    LOG2E,
    MOST_SPLITS,
    Config,
    ceil_div,
    decode_config,
    device_arch,
    multiprocessors,
    pick_splits,
    pow2_above,
    resident_programs,
)
from ..pool import KVPool

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
    heads = decode_arguments(q, pool, table, start, window, sinks, ring)
    out = torch.empty_like(q) if out is None else out
    check_output(q, out)
    if lse is None:
        lse = torch.empty(batch, q_heads, dtype=torch.float32, device=q.device)
    if batch == 0:
        return out, lse

    from .kernel import combine_kernel, decode_kernel
    from .packed import decode_packed_kernel

    config = config or config_of(pool, q.dtype)
    if splits is None:
        splits = splits_for(pool, batch, max_length, window + sinks, config)
    if splits > MOST_SPLITS:
        raise ValueError(f"{splits} splits: expected at most {MOST_SPLITS}")
    o_part, lse_part = out, lse
    strides = (*out.stride()[:2], 0, *lse.stride(), 0)
    if splits > 1:
        o_part = torch.empty(batch, q_heads, splits, head_dim, dtype=torch.float32, device=q.device)
        lse_part = torch.empty(batch, q_heads, splits, dtype=torch.float32, device=q.device)
        strides = (*o_part.stride()[:3], *lse_part.stride())

    mode: Window = "none" if window == 0 else "ring" if ring else "full"
    addresses = (table, start, lengths)
    layout = (
        *(table.stride()[:-1] if table is not None else (0,)),
        *(() if table is not None and table.dim() == 3 else (0,)),
        *lengths.stride(),
        *(() if lengths.dim() == 2 else (0,)),
    )
    # Rows of a dot: 16 at least. The packed kernel's tiles are as narrow as 16 or 32 columns, and a
    # dot no wider than tall would make its warps repeat each other: larger groups take turns.
    rows = max(16, pow2_above(heads))
    if pool.storage != "native":
        rows = 8 if pool.k.shape[-1] * pool.k.element_size() <= 32 else 16
    # Keys found through a table wait for it: the compiler spreads its stages over both reads, and
    # only two more of them buffer the keys as deep as without a table.
    stages = config.stages + (0 if table is None else 2)
    common = {
        "GP": rows,
        "PAGED": table is not None,
        "PAGE": pool.page_size if table is not None else 0,
        "WINDOW": mode,
        "BN": config.block_n,
        "STAGES": stages,
        "num_warps": config.warps,
        "num_stages": stages,
    }
    grid = (batch, pool.kv_heads * ceil_div(heads, rows), splits)
    factor = (head_dim**-0.5 if scale is None else scale) * LOG2E
    if pool.storage == "native":
        kernel = decode_kernel[grid](
            q,
            pool.k,
            pool.v,
            *addresses,
            o_part,
            lse_part,
            factor,
            sinks,
            window,
            heads,
            *q.stride()[:2],
            *pool.k.stride()[:3],
            *layout,
            *strides,
            D=head_dim,
            DP=pow2_above(head_dim),
            **common,
        )
    else:
        assert pool.side is not None
        k, v = pool.k.view(torch.int16), pool.v.view(torch.int16)
        words = k.shape[-1]
        if pool.storage == "fp8":
            side = pool.side
            side_strides: tuple[int, ...] = (0, *side.stride())
        else:
            halves = pool.side.dtype == torch.float16
            side = pool.side.view(torch.int32) if halves else pool.side
            side_strides = side.stride()[:3]
        kernel = decode_packed_kernel[grid](
            q,
            k,
            v,
            side,
            *addresses,
            o_part,
            lse_part,
            factor,
            sinks,
            window,
            heads,
            *q.stride()[:2],
            *k.stride()[:3],
            *side_strides,
            *layout,
            *strides,
            W=words,
            WP=max(16, pow2_above(words)),
            STORAGE=pool.storage,
            ALIGN=gcd(8, *k.stride()[:3]),
            **common,
        )
    if q.device.type == "cuda":
        _learn(kernel, config, pool, window + sinks)
    if splits > 1:
        combine_kernel[(batch, q_heads)](
            o_part,
            lse_part,
            out,
            lse,
            splits,
            *o_part.stride()[:3],
            *lse_part.stride(),
            *out.stride()[:2],
            *lse.stride(),
            D=head_dim,
            DP=pow2_above(head_dim),
            MOST=MOST_SPLITS,
            SB=8,
            num_warps=4,
        )
    return out, lse


def config_of(pool: KVPool, dtype: torch.dtype) -> Config:
    """The shipped tile sizes for queries of that type over the pool."""
    return decode_config(device_arch(pool.k.device), pool.storage, pool.head_dim, dtype)


def splits_for(
    pool: KVPool, batch: int, max_length: int, kept: int = 0, config: Config | None = None
) -> int:
    """Into how many parts `decode` cuts each sequence's keys, of which a window keeps so many.

    The same in every layer of a step. Without a config, queries are taken to be of 16 bits or, over
    fp32 pools, of fp32.
    """
    wide = pool.storage == "native" and pool.k.dtype == torch.float32
    config = config or config_of(pool, torch.float32 if wide else torch.bfloat16)
    keys = min(max_length, kept) if kept else max_length
    resident = _RESIDENT.get(_kind(config, pool, kept), config.resident)
    slots = multiprocessors(pool.k.device) * resident
    return pick_splits(batch * pool.kv_heads, slots, ceil_div(keys, config.block_n))


# What a compiled kernel's registers and shared memory leave room for; before its first launch the
# config's estimate holds.
_RESIDENT: dict[tuple[object, ...], int] = {}


def _kind(config: Config, pool: KVPool, kept: int) -> tuple[object, ...]:
    return config, pool.storage, pool.head_dim, pool.page_size if pool.pages > 1 else 0, kept > 0


def _learn(kernel: Any, config: Config, pool: KVPool, kept: int) -> None:
    kind = _kind(config, pool, kept)
    if kind not in _RESIDENT:
        chip = torch.cuda.get_device_properties(pool.k.device)
        _RESIDENT[kind] = resident_programs(
            kernel.n_regs,
            kernel.metadata.shared,
            config.warps,
            chip.shared_memory_per_multiprocessor,
        )
