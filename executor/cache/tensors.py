"""The KV tensors of all layers, sized by the same formula as the simulator's pool."""

from collections.abc import Iterable

import torch

from executor.cache.table import Move, Table
from executor.kernels.pool import KVPool, Storage, allocate
from executor.kernels.topk import allocate_landmarks
from sim.model.geometry import Model
from sim.policy.manager import Manager
from workloads.errors import InputError

DTYPES = {2: torch.bfloat16, 4: torch.float32}
"""Of weights and activations, by the bytes that the model's configuration gives an element."""


def storage_of(model: Model, token_bytes: int) -> Storage:
    """The storage that takes exactly so many bytes a token, scales included.

    What the simulator counts decides, not a name. Raises InputError where nothing takes as many.
    """
    heads = sum(group.kv_heads * group.layers for group in model.groups)
    dim = model.groups[0].head_dim
    sizes: dict[Storage, int] = {
        "native": 2 * heads * dim * model.dtype_bytes,
        "int8": 2 * heads * (dim + 2),
        "int4": 2 * heads * (dim // 2 + 4 * 2 * 2),
    }
    for storage, size in sizes.items():
        if size == token_bytes:
            return storage
    known = ", ".join(f"{name} {size}" for name, size in sizes.items())
    raise InputError(f"no storage takes {token_bytes} B a token of {model.name}, only {known}")


class CacheTensors:
    """One pool a layer: `[pages, kv_heads, page_size, head_dim]`; contiguous is a single page."""

    def __init__(self, table: Table, model: Model, token_bytes: int, device: torch.device) -> None:
        storage = storage_of(model, token_bytes)
        pages, page = table.units, table.unit_slots
        if not table.paged:
            pages, page = 1, pages * page
        self.pools: list[KVPool] = []
        for group in model.groups:
            self.pools += [
                allocate(
                    pages,
                    group.kv_heads,
                    page,
                    group.head_dim,
                    storage=storage,
                    dtype=DTYPES[model.dtype_bytes],
                    device=device,
                )
                for _ in range(group.layers)
            ]
        self.marks = [allocate_landmarks(pool) for pool in self.pools if table.landmark_bytes]

    def fill(self) -> None:
        """See `fill`."""
        for pool in self.pools:
            fill(pool)
        for marks in self.marks:
            marks.normal_()

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, scales and landmarks included: what the allocator was asked for."""
        return sum(pool.nbytes for pool in self.pools) + sum(marks.nbytes for marks in self.marks)


def fill(pool: KVPool) -> None:
    """Write numbers as a model would, so that no measurement reads NaN or denormals."""
    for codes in (pool.k, pool.v):
        if codes.is_floating_point():
            codes.normal_()
        else:
            codes.random_(0, 127)
    if pool.side is not None:
        pool.side.fill_(0.01)


def move(pools: Iterable[KVPool], moves: Iterable[Move]) -> None:
    """Copy slots of pools of one page to where their sequences have moved."""
    for source, target, slots in moves:
        for pool in pools:
            for data in (pool.k, pool.v, pool.side):
                if data is not None:
                    data[0, :, target : target + slots] = data[0, :, source : source + slots]


def predicted_bytes(manager: Manager) -> int:
    """What the simulator says its tensors take: the empty pool without the hole at its end."""
    memory = manager.memory()
    return manager.pool.capacity_bytes - memory.external
