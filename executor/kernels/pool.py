"""Where keys and values live on a device: one layout that every kernel and policy shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Storage = Literal["native", "fp8", "int8", "int4"]
STORAGES: tuple[Storage, ...] = ("native", "fp8", "int8", "int4")
INT8_LARGEST = 511 * 127.0  # beyond, int8 saturates: 128 of its scale fit in fp16
PARTS = 4  # int4 groups a head: each quarter has its own scale and zero


@dataclass(frozen=True, slots=True)
class KVPool:
    """One layer's cache: ``[pages, kv_heads, page_size, head_dim]``, so that a page of a head is
    one contiguous tile. A contiguous cache is a single page with one slot a token.

    A *slot* is ``page * page_size + offset``; kernels get slots or a page table, never positions.

    Storage, and what a value reads back as:

    native  16 or 32 bit floats
    fp8     e4m3: code * scale; side fp32 ``[kv_heads, 2]`` (K, V), chosen by the caller
    int8    code * scale; side fp16 or fp32 ``[pages, kv_heads, page_size, 2]`` (K, V)
    int4    code * scale + zero; side fp16 ``[pages, kv_heads, page_size, 2, 4, 2]``
            (K or V, quarter of the head, scale or zero). The 16-bit word j of a row holds
            dimensions j, j + D/4, j + D/2 and j + 3D/4 in its nibbles, low first, so that a kernel
            works on quarter heads and never shuffles lanes.

    The scales of a token sit together in 32-bit words: the GPU copies nothing smaller
    asynchronously, and one read serves all.
    """

    k: torch.Tensor
    v: torch.Tensor
    head_dim: int
    storage: Storage = "native"
    side: torch.Tensor | None = None

    def __post_init__(self) -> None:
        width = self.head_dim // 2 if self.storage == "int4" else self.head_dim
        if self.k.dim() != 4 or self.k.shape[-1] != width:
            raise ValueError(f"k must be [pages, kv_heads, page_size, {width}], is {self.k.shape}")
        if self.k.shape != self.v.shape or self.k.stride() != self.v.stride():
            raise ValueError("k and v must share one shape and strides")
        if self.k.stride(-1) != 1:
            raise ValueError("the head dimension must be contiguous")
        if self.head_dim % PARTS:
            raise ValueError(f"head_dim must be a multiple of {PARTS}, is {self.head_dim}")
        shape = side_shape(self.storage, *self.k.shape[:3])
        if (self.side is None) != (shape == ()) or (
            self.side is not None and self.side.shape != shape
        ):
            raise ValueError(f"{self.storage} storage needs side data {shape}")

    @property
    def codes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V as kernels take them: e4m3 as its bytes, which every GPU can read."""
        if self.storage == "fp8":
            return self.k.view(torch.uint8), self.v.view(torch.uint8)
        return self.k, self.v

    @property
    def side_strides(self) -> tuple[int, int, int, int, int]:
        """Strides of side by page, kv head, slot, K to V and int4 part; 0 where it has no axis."""
        if self.side is None:
            return 0, 0, 0, 0, 0
        strides = self.side.stride()
        if self.storage == "fp8":
            return 0, strides[0], 0, strides[1], 0
        page, head, slot, pair = strides[:4]
        return page, head, slot, pair, strides[4] if self.storage == "int4" else 0

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
        """Codes and side data together: the scales are not free."""
        held = (self.k, self.v) if self.side is None else (self.k, self.v, self.side)
        return sum(t.numel() * t.element_size() for t in held)


def side_shape(storage: Storage, pages: int, kv_heads: int, page_size: int) -> tuple[int, ...]:
    """Shape of a storage's scales and zeros, () where it has none."""
    shapes: dict[Storage, tuple[int, ...]] = {
        "native": (),
        "fp8": (kv_heads, 2),
        "int8": (pages, kv_heads, page_size, 2),
        "int4": (pages, kv_heads, page_size, 2, PARTS, 2),
    }
    return shapes[storage]


def allocate(
    pages: int,
    kv_heads: int,
    page_size: int,
    head_dim: int,
    *,
    storage: Storage = "native",
    dtype: torch.dtype = torch.bfloat16,
    scale: torch.dtype = torch.float16,
    device: torch.device | str = "cpu",
) -> KVPool:
    """A pool with unwritten (arbitrary) contents. ``dtype`` is that of native storage alone,
    ``scale`` that of int8's scales."""
    kinds = {"native": dtype, "fp8": torch.float8_e4m3fn, "int8": torch.int8, "int4": torch.uint8}
    width = head_dim // 2 if storage == "int4" else head_dim
    k = torch.empty(pages, kv_heads, page_size, width, dtype=kinds[storage], device=device)
    side = None
    if shape := side_shape(storage, pages, kv_heads, page_size):
        kind = scale if storage == "int8" else torch.float16
        side = torch.empty(shape, dtype=kind, device=device)
        if storage == "fp8":
            side = torch.ones(shape, dtype=torch.float32, device=device)
    return KVPool(k, torch.empty_like(k), head_dim, storage, side)
