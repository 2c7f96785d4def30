"""The launches that ``aot`` compiles: each shipped configuration at the shapes that stress it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from executor.kernels.blocks import copy, gather, scatter
from executor.kernels.configs import decode_config, prefill_config
from executor.kernels.decode import decode
from executor.kernels.decode.pieces import MOST_PIECES
from executor.kernels.pool import STORAGES, Storage, allocate
from executor.kernels.prefill import prefill
from executor.kernels.store import store
from executor.kernels.topk import accumulate_mass, allocate_landmarks, build_landmarks, page_scores


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    launch: Callable[[int], object]  # takes the architecture
    tile: int = 0  # elements of K and V an iteration of a decode's main loop reads
    tile_bytes: int = 0  # and what they take with their scales


def _decode(
    storage: Storage,
    head_dim: int = 128,
    page: int = 16,
    heads: int = 4,
    dtype: torch.dtype = torch.bfloat16,
    window: int = 0,
    pieces: int = 8,
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
            pieces=pieces,
            config=decode_config(arch, storage, head_dim, dtype),
        )

    kind = f"page{page}" if page else "flat"
    name = f"decode {storage} {str(dtype)[6:]} d{head_dim} {kind} g{heads}"
    if window:
        name += " window"
    block = decode_config(90, storage, head_dim, dtype).block_n
    token = allocate(1, 1, 1, head_dim, storage=storage, dtype=dtype).nbytes
    if storage == "fp8":
        token = 2 * head_dim  # its scales are a head's
    return Case(name, launch, 2 * block * head_dim, block * token)


def _store(storage: Storage, head_dim: int = 128) -> Case:
    def launch(arch: int) -> None:
        pool = allocate(4, 2, 16, head_dim, storage=storage)
        k = torch.empty(64, 2, head_dim, dtype=torch.bfloat16)
        store(pool, k, k.clone(), torch.zeros(64, dtype=torch.int64))

    return Case(f"store {storage} d{head_dim}", launch)


def _prefill(
    storage: Storage = "native",
    head_dim: int = 128,
    page: int = 16,
    dtype: torch.dtype = torch.bfloat16,
    window: int = 0,
    context: bool = True,
) -> Case:
    def launch(arch: int) -> None:
        pool = allocate(4, 2, page, head_dim, storage=storage, dtype=dtype)
        q = torch.empty(64, 8, head_dim, dtype=dtype)
        k = torch.empty(64, 2, head_dim, dtype=dtype)
        prefill(
            q,
            k,
            torch.empty_like(k),
            pool,
            torch.zeros(5, dtype=torch.int32),
            torch.zeros(4, dtype=torch.int32),
            max_new=64,
            max_past=int(context),
            table=torch.zeros(4, 32, dtype=torch.int32),
            window=window,
            config=prefill_config(arch, storage, head_dim, dtype),
        )

    name = f"prefill {storage} {str(dtype)[6:]} d{head_dim} page{page}"
    name += " window" if window else ""
    return Case(name + ("" if context else " first"), launch)


def _rank(storage: Storage) -> Case:
    def launch(arch: int) -> None:
        pool = allocate(4, 2, 16, 128, storage=storage)
        q = torch.empty(4, 8, 128, dtype=torch.bfloat16)
        ones = torch.ones(4, dtype=torch.int32)
        table = torch.zeros(4, 32, dtype=torch.int32)
        marks = allocate_landmarks(pool)
        build_landmarks(pool, ones, ones, marks)
        page_scores(q, marks, table, ones, 16)
        lse = torch.empty(4, 8)
        mass = torch.empty(pool.k.shape[:3])
        accumulate_mass(q, lse, pool, ones, mass, max_length=64, table=table)

    return Case(f"rank {storage} d128 page16", launch)


def _blocks(arch: int) -> None:
    pool, ids = allocate(4, 2, 16, 128), torch.zeros(2, 2, dtype=torch.int64)
    staging = torch.empty_like(pool.k)
    copy(pool.k, ids)
    gather(pool.k, ids[0], staging)
    scatter(staging, pool.k, ids[0])


CASES: tuple[Case, ...] = (
    _decode("native"),
    _decode("native", page=0),
    _decode("native", head_dim=64),
    _decode("native", head_dim=80),
    _decode("native", head_dim=256, pieces=MOST_PIECES),
    _decode("native", page=128, heads=8),
    _decode("native", window=1024, page=1),
    _decode("native", heads=32),
    _decode("native", dtype=torch.float32),
    _decode("native", dtype=torch.float32, head_dim=256),
    _decode("fp8"),
    _decode("int8"),
    _decode("int8", head_dim=64, page=1, heads=5, window=1024),
    _decode("int8", head_dim=256),
    _decode("int4"),
    _decode("int4", head_dim=64),
    _decode("int4", head_dim=80),
    _decode("int4", head_dim=256),
    _decode("int4", page=0, heads=32),
    _prefill(context=False),
    _prefill(),
    _prefill(head_dim=64),
    _prefill(head_dim=80),
    _prefill(head_dim=256),
    _prefill(window=1024),
    _prefill(dtype=torch.float32),
    _prefill(dtype=torch.float32, head_dim=256),
    _prefill("int4", head_dim=256),
    _prefill("fp8"),
    _prefill("int8"),
    _prefill("int4"),
    _store("native"),
    _store("fp8"),
    _store("int8"),
    _store("int4"),
    *(_rank(storage) for storage in STORAGES),
    Case("blocks", _blocks),
)
