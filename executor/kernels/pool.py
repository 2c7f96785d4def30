"""Where keys and values live on a device: one tensor layout that every kernel and every policy shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Storage = Literal["native", "fp8", "int8", "int4"]
STORAGES: tuple[Storage, ...] = ("native", "fp8", "int8", "int4")

FP8_MAX = 448.0  # largest finite e4m3 value
INT8_MAX = 127.0
INT4_MAX = 15.0


def int4_group(head_dim: int) -> int:
    """Elements that share a scale: 32, or half a head where 32 does not divide that half."""
    half = head_dim // 2
    return 32 if half % 32 == 0 else half


@dataclass(frozen=True, slots=True)
class KVPool:
    """One layer's cache: ``[pages, kv_heads, page_size, head_dim]``, so that a page of a head is one
    contiguous tile. A contiguous cache is a single page with one slot a token.

    A *slot* is ``page * page_size + offset``; kernels get slots or a page table, never positions.

    Storage (x is the value read back):
      native  16 or 32 bit floats
      fp8     e4m3, x = code * scale[kv_head], scales fp32 ``[kv_heads]``
      int8    x = code * scale, scales fp16 ``[pages, kv_heads, page_size]``
      int4    x = code * scale + zero, both fp16 ``[pages, kv_heads, page_size, head_dim // group]``;
              byte j of a row holds dimension j (low nibble) and j + head_dim / 2 (high nibble), so a
              kernel works on two half heads and never shuffles lanes
    """

    k: torch.Tensor
    v: torch.Tensor
    head_dim: int
    storage: Storage = "native"
    group: int = 0
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None
    k_zero: torch.Tensor | None = None
    v_zero: torch.Tensor | None = None

    def __post_init__(self) -> None:
        width = self.head_dim // 2 if self.storage == "int4" else self.head_dim
        if self.k.dim() != 4 or self.k.shape[-1] != width:
            raise ValueError(f"k must be [pages, kv_heads, page_size, {width}], is {self.k.shape}")
        if self.k.shape != self.v.shape or self.k.stride() != self.v.stride():
            raise ValueError("k and v must share one shape and strides")
        if self.k.stride(-1) != 1:
            raise ValueError("the head dimension must be contiguous")
        sides = self.side_data
        if len({(t.shape, t.stride(), t.dtype) for t in sides}) > 1:
            raise ValueError("scales and zeros must share one shape, strides and type")
        if len(sides) != {"native": 0, "fp8": 2, "int8": 2, "int4": 4}[self.storage]:
            raise ValueError(f"{self.storage} storage got {len(sides)} side tensors")
        if self.storage == "int4":
            half = self.head_dim // 2
            fits = self.group == half or (half % self.group == 0 and self.group.bit_count() == 1)
            if not fits:
                raise ValueError(f"group {self.group} must be half a head or a power of two in it")

    @property
    def side_data(self) -> list[torch.Tensor]:
        """Scales and zeros: bytes that the codes alone do not show."""
        sides = (self.k_scale, self.v_scale, self.k_zero, self.v_zero)
        return [t for t in sides if t is not None]

    @property
    def side_strides(self) -> tuple[int, int, int, int]:
        """Strides (page, head, slot, group) of scales and zeros; 0 where there is no such axis."""
        if self.k_scale is None:
            return 0, 0, 0, 0
        if self.storage == "fp8":
            return 0, self.k_scale.stride(0), 0, 0
        page, head, slot, *group = self.k_scale.stride()
        return page, head, slot, group[0] if group else 0

    @property
    def pages(self) -> int:
        return self.k.shape[0]

    @property
    def kv_heads(self) -> int:
        return self.k.shape[1]

    @property
    def page_size(self) -> int:
        return self.k.shape[2]

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.k, self.v, *self.side_data))


def allocate(
    pages: int,
    kv_heads: int,
    page_size: int,
    head_dim: int,
    *,
    storage: Storage = "native",
    dtype: torch.dtype = torch.bfloat16,
    group: int | None = None,
    device: torch.device | str = "cpu",
) -> KVPool:
    """A pool with unwritten (arbitrary) contents. ``dtype`` is that of native storage alone."""
    shape = (pages, kv_heads, page_size)

    def pair(width: int, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        k = torch.empty(*shape, width, dtype=kind, device=device)
        return k, torch.empty_like(k)

    if storage == "native":
        return KVPool(*pair(head_dim, dtype), head_dim)
    if storage == "fp8":
        ones = torch.ones(kv_heads, dtype=torch.float32, device=device)
        codes = pair(head_dim, torch.float8_e4m3fn)
        return KVPool(*codes, head_dim, "fp8", 0, ones, ones.clone())
    if storage == "int8":
        scales = (torch.empty(shape, dtype=torch.float16, device=device) for _ in range(2))
        return KVPool(*pair(head_dim, torch.int8), head_dim, "int8", 0, *scales)
    group = group or int4_group(head_dim)
    scale = pair(head_dim // group, torch.float16)
    zero = pair(head_dim // group, torch.float16)
    codes = pair(head_dim // 2, torch.uint8)
    return KVPool(*codes, head_dim, "int4", group, *scale, *zero)
