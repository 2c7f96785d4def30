"""Store: K and V of new tokens into their slots, in the pool's own storage."""

from __future__ import annotations

import torch

from ..configs import ceil_div, pow2_above
from ..pool import INT8_LARGEST, KVPool

BLOCK_TOKENS = 16


def store(pool: KVPool, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor) -> None:
    """Write ``k`` and ``v`` [tokens, kv_heads, head_dim] at ``slots`` [tokens] (int32 or int64).

    A negative slot skips its token; two tokens with one slot are the caller's error. int8 and int4
    choose their scales here, fp8 uses those already in the pool; int8 and fp8 saturate. NaN and,
    but in fp8, infinity read back as NaN.
    """
    tokens, kv_heads, head_dim = k.shape
    if (kv_heads, head_dim) != (pool.kv_heads, pool.head_dim) or v.shape != k.shape:
        raise ValueError(f"k and v must be [tokens, {pool.kv_heads}, {pool.head_dim}]: {k.shape}")
    if k.stride(-1) != 1 or v.stride(-1) != 1:
        raise ValueError("heads of k and v must be contiguous")
    if slots.shape != (tokens,) or not slots.is_contiguous():
        raise ValueError(f"slots must be a contiguous [{tokens}]")
    if tokens == 0:
        return
    from .kernel import store_kernel

    codes = pool.codes
    if pool.storage == "int4":
        codes = pool.k.view(torch.int16), pool.v.view(torch.int16)
    store_kernel[(ceil_div(tokens, BLOCK_TOKENS), kv_heads)](
        k,
        v,
        *codes,
        pool.side,
        slots,
        tokens,
        pool.page_size,
        *k.stride()[:2],
        *v.stride()[:2],
        *codes[0].stride()[:3],
        *pool.side_strides[:4],
        D=head_dim,
        DP=pow2_above(codes[0].shape[-1]),
        STORAGE=pool.storage,
        BT=BLOCK_TOKENS,
        LARGEST=INT8_LARGEST,
        num_warps=4,
    )
