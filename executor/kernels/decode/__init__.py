"""Decode attention: one query token for each sequence over its cached keys."""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import Any, Literal

import numpy as np
import torch

from ..check import check_output, decode_arguments
from ..configs import (
    LOG2E,
    Config,
    ceil_div,
    decode_config,
    device_arch,
    multiprocessors,
    pow2_above,
    resident_programs,
)
from ..pool import KVPool
from .pieces import MOST_PIECES, Pieces, cut, equal_pieces, most_pieces

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
    pieces: Pieces | int | None = None,
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
    pieces   into which keys are cut (``pieces.py``), or how many of each sequence; chosen by
             max_length otherwise, as if all were so long
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
    if pieces is None:
        pieces = equal_splits(pool, batch, max_length, window + sinks, config)
    if isinstance(pieces, int):
        if pieces > MOST_PIECES:
            raise ValueError(f"{pieces} pieces of a sequence: expected at most {MOST_PIECES}")
        pieces = equal_pieces(batch, pieces, q.device)
    o_part, lse_part = out, lse
    if not pieces.whole:
        shape = (len(pieces.each), q_heads)
        o_part = torch.empty(*shape, head_dim, dtype=torch.float32, device=q.device)
        lse_part = torch.empty(shape, dtype=torch.float32, device=q.device)
    strides = (*o_part.stride()[:2], *lse_part.stride())

    mode: Window = "none" if window == 0 else "ring" if ring else "full"
    addresses = (pieces.each, table, start, lengths)
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
    grid = (len(pieces.each), pool.kv_heads * ceil_div(heads, rows))
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
            pool.side if pool.storage == "int4" else None,
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
            SIDE_ALIGN=gcd(8, *(2 * stride for stride in side_strides)),
            **common,
        )
    if q.device.type == "cuda":
        _learn(kernel, config, pool, window + sinks)
    if not pieces.whole:
        combine_kernel[(batch, q_heads)](
            o_part,
            lse_part,
            pieces.rows,
            out,
            lse,
            *strides,
            *out.stride()[:2],
            *lse.stride(),
            D=head_dim,
            DP=pow2_above(head_dim),
            MOST=MOST_PIECES,
            SB=8,
            num_warps=4,
        )
    return out, lse


def config_of(pool: KVPool, dtype: torch.dtype) -> Config:
    """The shipped tile sizes for queries of that type over the pool."""
    return decode_config(device_arch(pool.k.device), pool.storage, pool.head_dim, dtype)


def tile_keys(pool: KVPool) -> int:
    """Keys of a tile, for queries of 16 bits or, over fp32 pools, of fp32."""
    return _config(pool).block_n


def _config(pool: KVPool) -> Config:
    wide = pool.storage == "native" and pool.k.dtype == torch.float32
    return config_of(pool, torch.float32 if wide else torch.bfloat16)


def programs_at_once(pool: KVPool, kept: int = 0, config: Config | None = None) -> int:
    """Programs of one key head that the chip runs at once; kept: keys that a window keeps, or 0."""
    config = config or _config(pool)
    resident = _RESIDENT.get(_kind(config, pool, kept), config.resident)
    return max(1, multiprocessors(pool.k.device) * resident // pool.kv_heads)


def equal_splits(pool: KVPool, batch: int, max_length: int, kept: int, config: Config) -> int:
    """Pieces of each sequence where all are taken to be of one length."""
    tiles = ceil_div(min(max_length, kept) if kept else max_length, config.block_n)
    return _equal_splits(batch, tiles, programs_at_once(pool, kept, config))


@cache
def _equal_splits(batch: int, tiles: int, slots: int) -> int:
    counts = cut(np.full(batch, tiles, dtype=np.int64), slots, most_pieces(batch, slots))
    return int(counts[0])


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
