"""What ``store`` must do, in plain torch, and how a pool reads back."""

from __future__ import annotations

import torch

from ..pool import INT8_LARGEST, PARTS, KVPool

FP8_MAX, INT8_MAX, INT4_MAX = 448.0, 127.0, 15.0


def _divide(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x / torch.where(scale > 0, scale.float(), 1.0)[..., None]


def quantise_fp8(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """x [..., kv_heads, D] under scales [kv_heads]; saturates, e4m3 having no infinity."""
    return (x.float() / scale[:, None]).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)


def half_above(x: torch.Tensor) -> torch.Tensor:
    """The least fp16 not below each fp32 of at least 0; NaN for NaN and infinity."""
    half = x.half()
    up = (half.view(torch.int16) + (half.float() < x).short()).view(torch.float16)
    return torch.where(torch.isfinite(x), up, torch.nan)


def quantise_int8(
    x: torch.Tensor, kind: torch.dtype = torch.float16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes int8 [..., D] and scales [...] of that kind. Codes use the scale as it is stored."""
    peak = x.float().abs().amax(-1)
    step = torch.where(torch.isfinite(peak), peak.clamp(max=INT8_LARGEST) / INT8_MAX, torch.nan)
    scale = half_above(step) if kind == torch.float16 else step
    code = torch.floor(_divide(x.float(), scale) + 0.5).clamp(-INT8_MAX, INT8_MAX)
    return code.nan_to_num().to(torch.int8), scale


def quantise_int4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes uint8 [..., D / 2] and (scale, zero) fp16 [..., 4, 2] of the quarters of each row."""
    parts = x.float().view(*x.shape[:-1], PARTS, x.shape[-1] // PARTS)
    low, high = parts.amin(-1), parts.amax(-1)
    bad = torch.where(torch.isfinite(high - low), 0.0, torch.nan)
    side = torch.stack([half_above((high - low) / INT4_MAX), (low + bad).half()], -1)
    code = torch.floor(_divide(parts - side[..., 1:].float(), side[..., 0]) + 0.5)
    a, b, c, d = code.clamp(0, INT4_MAX).nan_to_num().to(torch.uint8).unbind(-2)
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
            if pool.storage == "int8":
                code, side = quantise_int8(new, pool.side.dtype)
            else:
                code, side = quantise_int4(new)
            codes[page, :, offset], pool.side[page, :, offset, i] = code, side


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
