"""The KV tensors of all layers, sized by the same formula as the simulator's pool."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

from executor.cache.reserved import Reserved
from executor.cache.table import Move, Table
from executor.cache.virtual import Virtual
from executor.kernels.pool import PARTS, KVPool, Storage, allocate
from executor.kernels.topk import allocate_landmarks
from sim.model.geometry import Model
from sim.policy.manager import Manager
from sim.policy.top_k import SCORE_BYTES
from workloads.errors import InputError

DTYPES = {2: torch.bfloat16, 4: torch.float32}
"""Of weights and activations, by the bytes that the model's configuration gives an element."""


class Stored(NamedTuple):
    """How keys and values are kept: the storage, and the type of int8's scales."""

    storage: Storage
    scale: torch.dtype = torch.float16


def storage_of(model: Model, token_bytes: int) -> Stored:
    """The storage that takes exactly so many bytes a token, scales included.

    What the simulator counts decides, not a name. Raises InputError where nothing takes as many.
    """
    heads = sum(group.kv_heads * group.layers for group in model.groups)
    dim = model.groups[0].head_dim
    sizes = (
        ("native", 2 * heads * dim * model.dtype_bytes, Stored("native")),
        ("int8", 2 * heads * (dim + 4), Stored("int8", torch.float32)),
        ("int8:scale=fp16", 2 * heads * (dim + 2), Stored("int8")),
        ("fp8", 2 * heads * dim, Stored("fp8")),
        (f"int4:group={dim // PARTS}", 2 * heads * (dim // 2 + 4 * PARTS), Stored("int4")),
    )
    for _, size, stored in sizes:
        if size == token_bytes:
            return stored
    known = ", ".join(f"{name} ({size} B)" for name, size, _ in sizes)
    raise InputError(
        f"nothing the executor stores takes {token_bytes} B a token of {model.name}; "
        f"expected one of {known}"
    )


def score_bytes(table: Table, model: Model) -> int:
    """Of a token, where the table keeps those that drew most attention."""
    if table.ring is None or not table.ring.scored:
        return 0
    return SCORE_BYTES * sum(group.kv_heads * group.layers for group in model.groups)


def layer_order(model: Model) -> Iterator[tuple[int, int]]:
    """Of each layer, first to last: its group among the model's, and its number in that."""
    kinds = [group.kind for group in model.groups]
    if model.kinds:
        order = [kinds.index(kind) for layer in model.kinds for kind in layer if kind in kinds]
    else:
        order = [i for i, group in enumerate(model.groups) for _ in range(group.layers)]
    count = [0] * len(kinds)
    for group in order:
        yield group, count[group]
        count[group] += 1


class CacheTensors:
    """Pools `[pages, kv_heads, page_size, head_dim]`, contiguous ones of a single page. A layer has
    its own, or one that it shares with layers of other block tables."""

    def __init__(self, table: Table, model: Model, token_bytes: int, device: torch.device) -> None:
        storage, scale = storage_of(model, token_bytes - score_bytes(table, model))
        pages, page = table.units, table.unit_slots
        if not table.paged:
            pages, page = 1, pages * page
        self.pools: list[KVPool] = []  # of each layer
        self.views: list[int] = []  # of each layer, among the table's
        self.stored: list[KVPool] = []  # each once
        self.marks: list[torch.Tensor] = []  # landmarks of each layer's pages
        self.scores: list[torch.Tensor] = []  # of each layer's slots: attention drawn so far
        self._reserved: Reserved | None = None
        if isinstance(table, Virtual):
            self._reserved, alike = Reserved(table), model.groups[0]
            self.pools += self._reserved.pools(alike.kv_heads, alike.head_dim, storage)
            self.stored, self.views = self.pools, [0] * len(self.pools)
            return
        shared: dict[int, KVPool] = {}
        for group, number in layer_order(model):
            place, layers = table.place(group, number), model.groups[group]
            pool = None if place.pool is None else shared.get(place.pool)
            if pool is None:
                pool = allocate(
                    pages,
                    layers.kv_heads,
                    page,
                    layers.head_dim,
                    storage=storage,
                    dtype=DTYPES[model.dtype_bytes],
                    scale=scale,
                    device=device,
                )
                self.stored.append(pool)
                if place.pool is not None:
                    shared[place.pool] = pool
            self.pools.append(pool)
            self.views.append(place.view)
        self.marks = [allocate_landmarks(pool) for pool in self.pools if table.landmark_bytes]
        scored = table.ring is not None and table.ring.scored
        self.scores = [
            torch.zeros(pool.k.shape[:3], device=device) for pool in self.pools if scored
        ]

    def fill(self) -> None:
        """See `fill`. What is only reserved has zeros where it gets memory."""
        if self._reserved:
            return
        for pool in self.stored:
            fill(pool)
        for marks in self.marks:
            marks.normal_()

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors; landmarks, tokens' scales and scores included.

        fp8's scales are the model's, one a head, and no part of a cache. Of what is only reserved:
        what it takes when all pages are in use, by the system's count.
        """
        if self._reserved:
            return self._reserved.filled_bytes()
        beside: int = sum(data.nbytes for data in (*self.marks, *self.scores))
        return sum(pool.nbytes for pool in self.stored) + beside - self.fixed_bytes

    def back(self, table: Table) -> None:
        """The table's memory is this, where it must be asked for; others' is given back."""
        if self._reserved:
            assert isinstance(table, Virtual)
            self._reserved.clear()
            table.backing = self._reserved

    @property
    def fixed_bytes(self) -> int:
        """Of fp8's scales."""
        return sum(p.side.nbytes for p in self.stored if p.side is not None and p.storage == "fp8")


def fill(pool: KVPool) -> None:
    """Write numbers as a model would, so that no measurement reads NaN or denormals."""
    for codes in (pool.k, pool.v):
        if pool.storage == "native":
            codes.normal_()
        elif pool.storage == "fp8":
            codes.view(torch.uint8).random_(0, 127)
        else:
            codes.random_(0, 127)
    if pool.side is not None:
        pool.side.fill_(0.01)


def slot_data(pools: Iterable[KVPool]) -> list[torch.Tensor]:
    """What the pools hold of each slot: [pages, kv_heads, page_size, ...], fp8 as bytes."""
    found = [data for pool in pools for data in (*pool.codes, pool.side)]
    return [data for data in found if data is not None and data.dim() > 2]  # fp8's scales aren't


def move(datas: Iterable[torch.Tensor], moves: Iterable[Move]) -> None:
    """Copy slots of data of one page to where their sequences have moved."""
    for source, target, slots in moves:
        for data in datas:
            data[0, :, target : target + slots] = data[0, :, source : source + slots]


def predicted_bytes(manager: Manager) -> int:
    """What the simulator says its tensors take: the empty pool without the hole at its end."""
    memory = manager.memory()
    return manager.pool.capacity_bytes - memory.external
