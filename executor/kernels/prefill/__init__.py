"""Prefill: causal attention of new tokens, over a cached context and over each other."""

from __future__ import annotations

import torch

from ..check import check_output, prefill_arguments
from ..configs import LOG2E, Config, ceil_div, device_arch, pow2_above, prefill_config
from ..pool import KVPool


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
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    config: Config | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [tokens, q_heads, head_dim] in q's type, base-2 log-sum-exp [tokens, q_heads] fp32.

    q        [tokens, q_heads, head_dim]: the new tokens of all sequences, one after another
    k, v     [tokens, kv_heads, head_dim]: their keys and values, in q's type
    pool     its context alone is read: attend first, then store (a ring overwrites)
    cu       int32 [batch + 1]: where each sequence's tokens begin; cu[batch] = tokens
    past     int32 [batch]: tokens already in the cache, 0 for a prompt's first chunk
    max_new, max_past  upper bounds of a sequence's new and cached tokens, known to the host;
             max_past 0 compiles to a kernel that never looks at the pool

    Addresses and windows as in ``decode``; a table here is [batch, max_pages].
    """
    q_heads, head_dim = q.shape[1:]
    batch = past.shape[0]
    heads = prefill_arguments(q, k, v, pool, past, table, start, window, sinks, ring)
    out = torch.empty_like(q) if out is None else out
    check_output(q, out)
    if lse is None:
        lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
    if batch == 0 or max_new == 0:
        return out, lse
    from .kernel import prefill_kernel

    storage, codes, side = pool.storage, pool.codes, pool.side
    strides = (*pool.k.stride()[:3], *pool.side_strides)
    if max_past == 0:  # nothing of the pool is read: one kernel, whatever it is
        storage, codes, side, table, start = "native", (k, v), None, None, None
        strides = (0,) * len(strides)
    if config is None:
        config = prefill_config(device_arch(q.device), storage, head_dim, q.dtype)

    prefill_kernel[(ceil_div(max_new, config.block_m) * batch, q_heads)](
        q,
        k,
        v,
        *codes,
        side,
        table,
        start,
        cu,
        past,
        out,
        lse,
        (head_dim**-0.5 if scale is None else scale) * LOG2E,
        sinks,
        window,
        batch,
        heads,
        *q.stride()[:2],
        *k.stride()[:2],
        *v.stride()[:2],
        *strides,
        0 if table is None else table.stride(0),
        *out.stride()[:2],
        *lse.stride(),
        D=head_dim,
        DP=pow2_above(head_dim),
        PAGED=table is not None,
        PAGE=pool.page_size if table is not None else 0,
        WINDOW="none" if window == 0 else "ring" if ring else "full",
        STORAGE=storage,
        CONTEXT=max_past > 0,
        BM=config.block_m,
        BN=config.block_n,
        STAGES=config.stages,
        num_warps=config.warps,
        num_stages=config.stages,
    )
    return out, lse
