"""Store: K and V of new tokens into their slots, in the pool's own storage."""

from __future__ import annotations

import torch
import triton

from ..pool import KVPool
from .kernel import store_kernel

BLOCK_TOKENS = 16


def store(pool: KVPool, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor) -> None:
    """Write ``k`` and ``v`` [tokens, kv_heads, head_dim] at ``slots`` [tokens] (int32 or int64).

    A negative slot skips its token; two tokens with one slot are the caller's error. int8 and int4
    choose their scales here, fp8 uses those already in the pool.
    """
    tokens, kv_heads, head_dim = k.shape
    if (kv_heads, head_dim) != (pool.kv_heads, pool.head_dim) or v.shape != k.shape:
        raise ValueError(f"k and v must be [tokens, {pool.kv_heads}, {pool.head_dim}]: {k.shape}")
    if k.stride() != v.stride() or k.stride(-1) != 1:
        raise ValueError("k and v must share their strides, the last one 1")
    if slots.shape != (tokens,) or not slots.is_contiguous():
        raise ValueError(f"slots must be a contiguous [{tokens}]")
    if tokens == 0:
        return
    views = {"native": pool.k.dtype, "fp8": torch.uint8, "int8": torch.int8, "int4": torch.int16}
    codes = pool.k.view(views[pool.storage])
    side_strides = (0, 0, 0)
    if pool.side is not None:
        # fp8 has only (heads, 2)
        strides = pool.side.stride()
        side_strides = (0, strides[0], 0) if pool.storage == "fp8" else strides[:3]
    store_kernel[(triton.cdiv(tokens, BLOCK_TOKENS), kv_heads)](
        k,
        v,
        codes,
        pool.v.view(codes.dtype),
        pool.side,
        slots,
        tokens,
        pool.page_size,
        *k.stride()[:2],
        *codes.stride()[:3],
        *side_strides,
        D=head_dim,
        DP=triton.next_power_of_2(codes.shape[-1]),
        STORAGE=pool.storage,
        BT=BLOCK_TOKENS,
        num_warps=4,
    )
