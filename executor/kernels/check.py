"""What the operations ask of their arguments, in Triton and in torch. Nothing of them is read."""

from __future__ import annotations

import torch

from .pool import KVPool


def decode_arguments(
    q: torch.Tensor,
    pool: KVPool,
    table: torch.Tensor | None,
    start: torch.Tensor | None,
    window: int,
    sinks: int,
    ring: bool,
) -> int:
    """Query heads that share a key head."""
    heads = query_group(q, pool)
    check_addresses(pool, table, start, len(q))
    check_window(window, sinks, ring)
    return heads


def prefill_arguments(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    pool: KVPool,
    past: torch.Tensor,
    table: torch.Tensor | None,
    start: torch.Tensor | None,
    window: int,
    sinks: int,
    ring: bool,
) -> int:
    """Query heads that share a key head."""
    heads = query_group(q, pool)
    check_addresses(pool, table, start, len(past))
    check_window(window, sinks, ring)
    if table is not None and table.dim() != 2:
        raise ValueError("prefill takes one table for all heads: [batch, max_pages]")
    if k.shape != (q.shape[0], pool.kv_heads, q.shape[2]) or k.dtype != q.dtype:
        raise ValueError(f"k must be {q.dtype} [{q.shape[0]}, {pool.kv_heads}, {q.shape[2]}]")
    if v.shape != k.shape or v.dtype != k.dtype or k.stride(-1) != 1 or v.stride(-1) != 1:
        raise ValueError("k and v must share type and shape, their heads contiguous")
    return heads


def score_arguments(q: torch.Tensor, marks: torch.Tensor) -> int:
    """Query heads that share a key head."""
    q_heads, kv_heads = q.shape[1], marks.shape[1]
    if q_heads % kv_heads:
        raise ValueError(f"{q_heads} query heads do not divide among {kv_heads} kv heads")
    return q_heads // kv_heads


def mass_arguments(
    q: torch.Tensor,
    pool: KVPool,
    mass: torch.Tensor,
    table: torch.Tensor | None,
    start: torch.Tensor | None,
) -> int:
    """Query heads that share a key head."""
    heads = query_group(q, pool)
    check_addresses(pool, table, start, len(q))
    if mass.shape != pool.k.shape[:3] or mass.stride(-1) != 1:
        raise ValueError(f"mass must be [pages, kv_heads, page_size]: {mass.shape}")
    return heads


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
        raise ValueError("give a page table or start slots, and not both")
    if start is not None and (pool.pages != 1 or start.dtype != torch.int64):
        raise ValueError("start slots are int64 and need a pool of one page")
    given = start if table is None else table
    assert given is not None
    if given.shape[0] != batch or given.stride(-1) != 1:
        raise ValueError(f"table or start must have {batch} contiguous rows: {given.shape}")


def check_output(q: torch.Tensor, out: torch.Tensor) -> None:
    if out.shape != q.shape or out.stride(-1) != 1:
        raise ValueError(f"out must be {tuple(q.shape)}, its heads contiguous: {out.stride()}")


def check_window(window: int, sinks: int, ring: bool) -> None:
    if window < 0 or sinks < 0 or (window == 0 and (sinks > 0 or ring)):
        raise ValueError(f"sinks and rings need a window: {window}, {sinks} sinks, ring {ring}")
