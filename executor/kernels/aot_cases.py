"""The launches that ``aot`` compiles: each shipped configuration at the shapes that stress it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .configs import decode_config
from .decode import decode
from .pool import Storage, allocate
from .store import store


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    launch: Callable[[int], object]  # takes the architecture
    tile: int = 0  # elements of K and V an iteration of the main loop reads


def _decode(
    storage: Storage,
    head_dim: int = 128,
    page: int = 16,
    heads: int = 4,
    dtype: torch.dtype = torch.bfloat16,
    window: int = 0,
    splits: int = 8,
) -> Case:
    def launch(arch: int) -> None:
        paged = page > 0
        pages, size = (4, page) if paged else (1, 64)
        pool = allocate(pages, 2, size, head_dim, storage=storage, dtype=dtype)
        q = torch.empty(4, 2 * heads, head_dim, dtype=dtype)
        decode(
            q,
            pool,
            torch.ones(4, dtype=torch.int32),
            max_length=64,
            table=torch.zeros(4, 32, dtype=torch.int32) if paged else None,
            start=None if paged else torch.zeros(4, dtype=torch.int64),
            window=window,
            splits=splits,
            config=decode_config(arch, storage, head_dim, dtype),
        )

    kind = f"page{page}" if page else "flat"
    name = f"decode {storage} {str(dtype)[6:]} d{head_dim} {kind} g{heads}"
    if window:
        name += " window"
    block = decode_config(90, storage, head_dim, dtype).block_n
    return Case(name, launch, 2 * block * head_dim)


def _store(storage: Storage, head_dim: int = 128) -> Case:
    def launch(arch: int) -> None:
        pool = allocate(4, 2, 16, head_dim, storage=storage)
        k = torch.empty(64, 2, head_dim, dtype=torch.bfloat16)
        store(pool, k, k.clone(), torch.zeros(64, dtype=torch.int64))

    return Case(f"store {storage} d{head_dim}", launch)


CASES: tuple[Case, ...] = (
    _decode("native"),
    _decode("native", page=0),
    _decode("native", head_dim=64),
    _decode("native", head_dim=80),
    _decode("native", head_dim=256),
    _decode("native", page=128, heads=8),
    _decode("native", window=1024, page=1),
    _decode("native", heads=32),
    _decode("native", dtype=torch.float32),
    _decode("fp8"),
    _decode("int8"),
    _decode("int8", head_dim=256),
    _decode("int4"),
    _decode("int4", head_dim=64),
    _decode("int4", head_dim=80),
    _decode("int4", head_dim=256),
    _store("native"),
    _store("fp8"),
    _store("int8"),
    _store("int4"),
)
