"""What ``store`` must do, in plain torch."""

from __future__ import annotations

import torch

from ..pool import FP8_MAX, INT4_MAX, INT8_MAX, KVPool


def _nonzero(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale > 0, scale.float(), 1.0)


def quantise_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes int8 [..., D] and scales fp16 [...]: one scale a token and head."""
    scale = (x.float().abs().amax(-1) / INT8_MAX).half()
    code = torch.floor(x.float() / _nonzero(scale)[..., None] + 0.5)
    return code.clamp(-INT8_MAX, INT8_MAX).to(torch.int8), scale


def quantise_int4(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Bytes uint8 [..., D / 2], scales and zeros fp16 [..., D / group]."""
    grouped = x.float().unflatten(-1, (-1, group))
    low, high = grouped.amin(-1), grouped.amax(-1)
    zero, scale = low.half(), ((high - low) / INT4_MAX).half()
    code = torch.floor((grouped - zero.float()[..., None]) / _nonzero(scale)[..., None] + 0.5)
    first, second = code.clamp(0, INT4_MAX).to(torch.uint8).flatten(-2).chunk(2, -1)
    return first | (second << 4), scale, zero


def dequantise_int4(
    code: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, group: int
) -> torch.Tensor:
    nibbles = torch.cat([code & 15, code >> 4], -1).float().unflatten(-1, (-1, group))
    return (nibbles * scale.float()[..., None] + zero.float()[..., None]).flatten(-2)


def store(pool: KVPool, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor) -> None:
    """k, v [tokens, kv_heads, head_dim]; slots [tokens], negative = skip this token."""
    kept = slots >= 0
    slot = slots[kept].long()
    page, offset = slot // pool.page_size, slot % pool.page_size
    for new, codes, scale, zero in (
        (k[kept], pool.k, pool.k_scale, pool.k_zero),
        (v[kept], pool.v, pool.v_scale, pool.v_zero),
    ):
        if pool.storage == "native":
            codes[page, :, offset] = new.to(codes.dtype)
        elif pool.storage == "fp8":
            assert scale is not None
            value = (new.float() / scale[:, None]).clamp(-FP8_MAX, FP8_MAX).to(codes.dtype)
            # Indexing fp8 is not implemented everywhere; its bytes are.
            codes.view(torch.uint8)[page, :, offset] = value.view(torch.uint8)
        elif pool.storage == "int8":
            assert scale is not None
            codes[page, :, offset], scale[page, :, offset] = quantise_int8(new)
        else:
            assert scale is not None
            assert zero is not None
            code, s, z = quantise_int4(new, pool.group)
            codes[page, :, offset], scale[page, :, offset], zero[page, :, offset] = code, s, z


def dequantise(pool: KVPool) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole pool read back in fp32: [pages, kv_heads, page_size, head_dim] twice."""
    out = []
    for codes, scale, zero in (
        (pool.k, pool.k_scale, pool.k_zero),
        (pool.v, pool.v_scale, pool.v_zero),
    ):
        if pool.storage == "native":
            out.append(codes.float())
        elif pool.storage == "fp8":
            assert scale is not None
            out.append(codes.float() * scale[:, None, None])
        elif pool.storage == "int8":
            assert scale is not None
            out.append(codes.float() * scale.float()[..., None])
        else:
            assert scale is not None
            assert zero is not None
            out.append(dequantise_int4(codes, scale, zero, pool.group))
    return out[0], out[1]
