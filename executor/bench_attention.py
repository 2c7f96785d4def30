"""Attention alone, against ceilings measured in the same process."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from executor.assemble import attention_for
from executor.cache.contiguous import Contiguous
from executor.cache.paged import Paged
from executor.cache.table import Table
from executor.calibrate import chunk_work, decode_work
from executor.kernels.pool import KVPool, Storage, allocate
from executor.machine import Machine, seconds
from executor.work import Work
from sim.cost.steps_table import Hardware


@dataclass(frozen=True)
class Shape:
    """One benchmark: a batch of equal decodes, or one prefill chunk where `tokens` is given."""

    batch: int
    context: int  # of each decode; of a prefill, tokens before the chunk
    heads: int
    kv_heads: int
    head_dim: int
    page: int  # 0: contiguous
    storage: Storage = "native"
    tokens: int = 0

    @property
    def work(self) -> Work:
        """The step it times."""
        if self.tokens:
            return chunk_work(self.tokens, self.context)
        return decode_work(self.batch, self.context)

    def table(self) -> Table:
        """A table with room for it."""
        longest = self.context + self.tokens
        if not self.page:
            return Contiguous(self.batch, longest)
        return Paged(self.batch * -(-longest // self.page), self.page)


def bench(shape: Shape, machine: Machine, dtype: torch.dtype, hardware: Hardware) -> dict[str, Any]:
    """Median time of storing and attending in one layer, and its share of the ceiling.

    Decode is held against copy bandwidth (bytes of KV read), prefill against the matmul rate
    (4 FLOPs a head, dimension and visible pair).
    """
    table, work = shape.table(), shape.work
    table.follow(work)
    pages, page = table.units, table.unit_slots
    if not table.paged:
        pages, page = 1, pages * page
    pool = allocate(
        pages,
        shape.kv_heads,
        page,
        shape.head_dim,
        storage=shape.storage,
        dtype=dtype,
        device=machine.device,
    )
    _fill(pool)
    attention = attention_for(machine, table, [pool], dtype)
    attention.begin(work)
    q = torch.randn(work.tokens, shape.heads, shape.head_dim, device=machine.device, dtype=dtype)
    k, v = torch.randn(
        2, work.tokens, shape.kv_heads, shape.head_dim, device=machine.device, dtype=dtype
    )
    took = cold_seconds(machine, lambda: attention.attend(0, q, k, v))
    result = {**asdict(shape), "dtype": str(dtype), "seconds": took}
    sdpa = cold_seconds(machine, _sdpa(shape, machine, dtype))
    result["torch_sdpa_seconds"] = sdpa
    if shape.tokens:
        pairs = shape.tokens * shape.context + shape.tokens * (shape.tokens + 1) // 2
        rate = 4 * shape.heads * shape.head_dim * pairs / took
        return result | {
            "flops_per_s": rate,
            "share_of_matmul": rate / hardware.matmul_flops_per_s,
        }
    read = pool.nbytes / (table.units * table.unit_slots) * shape.batch * shape.context
    return result | {
        "kv_bytes": read,
        "bytes_per_s": read / took,
        "share_of_copy": read / took / hardware.copy_bytes_per_s,
    }


def cold_seconds(machine: Machine, call: Callable[[], object]) -> float:
    """Median seconds; on a GPU by events, with the last-level cache overwritten before each."""
    if machine.kind == "cpu":
        return seconds(machine, call)
    flushed = torch.empty(256 << 20, dtype=torch.uint8, device=machine.device)
    times: list[float] = []
    for _ in range(25):
        flushed.zero_()
        start = torch.Event(device=machine.device, enable_timing=True)
        end = torch.Event(device=machine.device, enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return sorted(times[5:])[10]


def _sdpa(shape: Shape, machine: Machine, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    """Torch's own attention on contiguous tensors of the same sizes, without any cache."""
    keys = shape.context + shape.tokens
    queries = shape.tokens or 1
    q = torch.randn(
        shape.batch, shape.heads, queries, shape.head_dim, device=machine.device, dtype=dtype
    )
    k, v = torch.randn(
        2, shape.batch, shape.kv_heads, keys, shape.head_dim, device=machine.device, dtype=dtype
    )
    causal = bool(shape.tokens) and not shape.context
    return lambda: scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def _fill(pool: KVPool) -> None:
    for codes in (pool.k, pool.v):
        if codes.is_floating_point():
            codes.normal_()
        else:
            codes.random_(0, 127)
    if pool.side is not None:
        pool.side.fill_(0.01)
