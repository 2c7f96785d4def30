"""Attention alone, against ceilings measured in the same process."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

import torch

from benchmarks.gpu.peers import Call, flashinfer, sdpa
from executor.cache.contiguous import Contiguous
from executor.cache.paged import Paged
from executor.cache.table import Table
from executor.cache.tensors import fill
from executor.device.assemble import attention_for
from executor.device.machine import Machine
from executor.kernels.pool import Storage, allocate
from executor.validation.calibrate import chunk_work, decode_work
from executor.work import Work
from sim.cost.steps.table import Hardware

WARM_UPS = 5
REPEATS = {"cpu": 9, "cuda": 30}


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
    fill(pool)
    attention = attention_for(machine, table, [pool], dtype)
    attention.begin(work)
    q = torch.randn(work.tokens, shape.heads, shape.head_dim, device=machine.device, dtype=dtype)
    k, v = torch.randn(
        2, work.tokens, shape.kv_heads, shape.head_dim, device=machine.device, dtype=dtype
    )
    ours = timed(machine, lambda: attention.attend(0, q, k, v))
    result: dict[str, Any] = {**asdict(shape), "dtype": str(dtype), **ours._asdict()}
    keys, sequences = shape.context + shape.tokens, list(table.owned)
    peers: dict[str, Call | None] = {"torch_sdpa": sdpa(q, pool, shape.batch, keys)}
    if table.paged:
        owned = [table.owned[request] for request in sequences]
        peers["flashinfer"] = flashinfer(q, pool, owned, [keys] * len(owned))
    for name, call in peers.items():
        result[name] = None if call is None else timed(machine, call)._asdict()
    if shape.tokens:
        pairs = shape.tokens * shape.context + shape.tokens * (shape.tokens + 1) // 2
        rate = 4 * shape.heads * shape.head_dim * pairs / ours.seconds
        return result | {
            "flops_per_s": rate,
            "share_of_matmul": rate / hardware.matmul_flops_per_s,
        }
    read = pool.nbytes / (table.units * table.unit_slots) * shape.batch * shape.context
    return result | {
        "kv_bytes": read,
        "bytes_per_s": read / ours.seconds,
        "share_of_copy": read / ours.seconds / hardware.copy_bytes_per_s,
    }


class Timed(NamedTuple):
    """Repeats of one call, each with cold caches on a GPU."""

    seconds: float  # median
    spread_percent: float  # (ninth tenth - first tenth) / median


def timed(machine: Machine, call: Callable[[], object]) -> Timed:
    """By events on a GPU, with the last-level cache overwritten before each; else by the clock."""
    times = sorted(cold_times(machine, call)[WARM_UPS:])
    middle = median(times)
    tenth = len(times) // 10
    return Timed(middle, 100 * (times[-1 - tenth] - times[tenth]) / middle)


def cold_times(machine: Machine, call: Callable[[], object]) -> list[float]:
    """Seconds of each call, those that warm up included."""
    times: list[float] = []
    if machine.kind == "cpu":
        for _ in range(WARM_UPS + REPEATS["cpu"]):
            began = machine.clock()
            call()
            times.append((machine.clock() - began) / 1e9)
        return times
    flushed = torch.empty(256 << 20, dtype=torch.uint8, device=machine.device)
    for _ in range(WARM_UPS + REPEATS["cuda"]):
        flushed.zero_()
        start = torch.Event(device=machine.device, enable_timing=True)
        end = torch.Event(device=machine.device, enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return times
