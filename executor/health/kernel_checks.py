"""Small checks that attention over each layout and storage is right, run before measuring."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch

from executor.attention.plain import NO_WINDOW, PlainAttention
from executor.attention.torch_path import TorchAttention
from executor.cache.contiguous import Contiguous
from executor.cache.paged import Paged
from executor.cache.ring import Ring
from executor.cache.selected import Selected
from executor.cache.table import Table, View
from executor.device.torch_device import StepAttention
from executor.kernels.pool import Storage, allocate
from executor.kernels.topk import allocate_landmarks
from executor.work import Decode, Work
from sim.plan import Chunk

HEADS, KV_HEADS, HEAD_DIM = 6, 2, 64
INTERPRETED_HEADS = 4  # each takes seconds

TABLES: dict[str, Callable[[], Table]] = {
    "contiguous": lambda: Contiguous(3, 64),
    "ring, wraps": lambda: Contiguous(3, 18, Ring(18, 2)),
    "paged ring, wraps": lambda: Paged(15, 4, Ring(18, 2)),
    "selected pages, all of them": lambda: Selected(12, 16, count=12, landmark_bytes=512),
    "paged, a layer's window": lambda: windowed(Paged(12, 16), 18),
    "paged, 16": lambda: Paged(12, 16),
    "paged, 1": lambda: Paged(160, 1),
}
INTERPRETED = ("contiguous", "paged ring, wraps", "selected pages, all of them", "paged, 16")
"""Layouts that are checked where each takes seconds: the others run what these run."""
TOLERANCES: dict[Storage, float] = {"native": 1e-2, "int8": 5e-2, "int4": 0.5}


def windowed(table: Table, window: int) -> Table:
    """The table as layers with a window of their own see it: all is kept, the end is read."""
    table.views = (View(table, window),)
    return table


class Check(NamedTuple):
    """A table and a storage that a kernel must serve."""

    name: str
    table: Callable[[], Table]
    storage: Storage

    @property
    def tolerance(self) -> float:
        """Largest error allowed, of outputs near 1."""
        return TOLERANCES[self.storage]


def checks(storages: tuple[Storage, ...], layouts: Iterable[str] = TABLES) -> Iterator[Check]:
    """Each layout with native storage, and paging with the others."""
    for name in layouts:
        yield Check(f"{name}, native", TABLES[name], "native")
    for storage in storages:
        if storage != "native":
            yield Check(f"paged, 16, {storage}", TABLES["paged, 16"], storage)


def script() -> list[Work]:
    """Chunked prefill beside decoding, and a request that leaves and comes again."""
    return [
        Work((), (Chunk(0, 0, 33, False), Chunk(1, 0, 5, True)), ()),
        Work((), (Chunk(0, 33, 17, True), Chunk(2, 0, 7, False)), (Decode(1, 6),)),
        Work((), (Chunk(2, 7, 9, True),), (Decode(0, 51), Decode(1, 7))),
        Work((1,), (Chunk(1, 0, 16, True),), (Decode(0, 52), Decode(2, 17))),
        Work((), (), (Decode(0, 53), Decode(1, 17), Decode(2, 18))),
    ]


def largest_error(check: Check, device: str, triton: bool) -> float:
    """Largest difference from plain attention over the script, in torch or in our kernels.

    The pool is poisoned with NaN first, so that reading what was never written shows. fp16: the
    interpreter's bf16 is wrong.
    """
    table = check.table()
    pages, page = table.units, table.unit_slots
    if not table.paged:
        pages, page = 1, pages * page
    pool = allocate(
        pages, KV_HEADS, page, HEAD_DIM, storage=check.storage, dtype=torch.float16, device=device
    )
    for tensor in (pool.k, pool.v, pool.side):
        if tensor is not None and tensor.is_floating_point():
            tensor.fill_(float("nan"))
    marks = [allocate_landmarks(pool)] if table.landmark_bytes else []
    ours: StepAttention
    if triton:
        from executor.attention.triton_path import TritonAttention

        ours = TritonAttention(table, [pool], marks)
    else:
        ours = TorchAttention(table, [pool], torch.float16, marks)
    plain = PlainAttention(table.views[0].window or NO_WINDOW)
    if table.ring:
        plain = PlainAttention(table.ring.window, table.ring.sinks)
    generator = torch.Generator().manual_seed(0)
    query_heads = INTERPRETED_HEADS if triton and device == "cpu" else HEADS
    worst = 0.0
    for work in script():
        table.follow(work)
        heads = query_heads + 2 * KV_HEADS
        qkv = torch.randn(work.tokens, heads, HEAD_DIM, generator=generator)
        q, k, v = torch.tensor_split(
            qkv.half().to(device), (query_heads, query_heads + KV_HEADS), 1
        )
        outputs = []
        for attention in (ours, plain):
            attention.begin(work)
            outputs.append(attention.attend(0, q, k, v).float())
        difference = (outputs[0] - outputs[1]).abs().max().item()
        worst = max(worst, difference if difference == difference else float("inf"))
    return worst
