"""The KV tensors of all layers, sized by the same formula as the simulator's pool."""

import torch

from executor.cache.table import Table
from executor.kernels.pool import KVPool, Storage, allocate
from sim.model import Model
from sim.policy.base import Manager
from workloads.errors import InputError

DTYPES = {2: torch.bfloat16, 4: torch.float32}
"""Of weights and activations, by the bytes that the model's configuration gives an element."""

STORAGES: dict[str, Storage] = {"auto": "native", "int8": "int8"}
"""Of KV, by --kv-cache-dtype."""


class CacheTensors:
    """One pool a layer: `[pages, kv_heads, page_size, head_dim]`; contiguous is a single page."""

    def __init__(self, table: Table, model: Model, kv_dtype: str, device: torch.device) -> None:
        if kv_dtype not in STORAGES:
            known = ", ".join(STORAGES)
            raise InputError(f"--kv-cache-dtype {kv_dtype}: the executor stores one of {known}")
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
                    storage=STORAGES[kv_dtype],
                    dtype=DTYPES[model.dtype_bytes],
                    device=device,
                )
                for _ in range(group.layers)
            ]

    @property
    def nbytes(self) -> int:
        """Bytes of all KV tensors, scales included: what was really asked of the allocator."""
        return sum(pool.nbytes for pool in self.pools)


def predicted_bytes(manager: Manager) -> int:
    """What the simulator says its tensors take: the empty pool without the hole at its end."""
    memory = manager.memory()
    return manager.pool.capacity_bytes - memory.external
