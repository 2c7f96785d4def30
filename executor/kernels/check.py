"""What every attention launch asks of its arguments. Shapes and types alone: nothing is read."""

from __future__ import annotations

import torch

from .pool import KVPool


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


def check_window(window: int, sinks: int, ring: bool) -> None:
    if window < 0 or sinks < 0 or (window == 0 and (sinks > 0 or ring)):
        raise ValueError(f"sinks and rings need a window: {window}, {sinks} sinks, ring {ring}")
