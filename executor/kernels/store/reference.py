"""What ``store`` must do, in plain torch, and how a pool reads back."""

from __future__ import annotations

import torch

from ..pool import PARTS, KVPool

FP8_MAX, INT8_MAX, INT4_MAX = 448.0, 127.0, 15.0


def _divide(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x / torch.where(scale > 0, scale.float(), 1.0)[..., None]


def quantise_fp8(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """x [..., kv_heads, D] under scales [kv_heads]; saturates, e4m3 having no infinity."""
    return (x.float() / scale[:, None]).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)


def quantise_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes int8 [..., D] and scales fp16 [...]. Codes use the scale as it is stored."""
    scale = (x.float().abs().amax(-1) / INT8_MAX).half()
    code = torch.floor(_divide(x.float(), scale) + 0.5).clamp(-INT8_MAX, INT8_MAX)
    return code.to(torch.int8), scale


def quantise_int4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes uint8 [..., D / 2] and (scale, zero) fp16 [..., 4, 2] of the quarters of each row."""
    parts = x.float().view(*x.shape[:-1], PARTS, -1)
    low, high = parts.amin(-1), parts.amax(-1)
    side = torch.stack([(high - low) / INT4_MAX, low], -1).half()
    code = torch.floor(_divide(parts - side[..., 1:].float(), side[..., 0]) + 0.5)
    a, b, c, d = code.clamp(0, INT4_MAX).to(torch.uint8).unbind(-2)
    return torch.stack([a | (b << 4), c | (d << 4)], -1).flatten(-2), side


def dequantise_int4(code: torch.Tensor, side: torch.Tensor) -> torch.Tensor:
    even, odd = code[..., ::2], code[..., 1::2]
    parts = torch.stack([even & 15, even >> 4, odd & 15, odd >> 4], -2).float()
    return (parts * side[..., :1].float() + side[..., 1:].float()).flatten(-2)


def store(pool: KVPool, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor) -> None:
    """k, v [tokens, kv_heads, head_dim]; slots [tokens], negative = skip this token."""
    kept = slots >= 0
    page = slots[kept].long() // pool.page_size
    offset = slots[kept].long() % pool.page_size
    for i, (new, codes) in enumerate(((k[kept], pool.k), (v[kept], pool.v))):
        if pool.side is None:
            codes[page, :, offset] = new.to(codes.dtype)
        elif pool.storage == "fp8":
            # Indexing fp8 is not implemented everywhere; its bytes are.
            code = quantise_fp8(new, pool.side[:, i]).view(torch.uint8)
            codes.view(torch.uint8)[page, :, offset] = code
        else:
            quantise = quantise_int8 if pool.storage == "int8" else quantise_int4
            codes[page, :, offset], pool.side[page, :, offset, i] = quantise(new)


def read_back(
    pool: KVPool, codes: torch.Tensor, side: torch.Tensor | None, which: int
) -> torch.Tensor:
    """Values fp32 of codes [..., kv_heads, tokens, width], K (which 0) or V (1), by their side data
    [..., kv_heads, tokens, ...]; fp8 keeps that in the pool."""
    if pool.storage == "fp8":
        assert pool.side is not None
        return codes.float() * pool.side[:, which, None, None]
    if side is None:
        return codes.float()
    if pool.storage == "int8":
        return codes * side[..., which, None].float()
    return dequantise_int4(codes, side[..., which, :, :])


def dequantise(pool: KVPool) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole pool read back in fp32: K and V [pages, kv_heads, page_size, head_dim]."""
    return read_back(pool, pool.k, pool.side, 0), read_back(pool, pool.v, pool.side, 1)
