"""Kernels against their references: on a GPU where there is one, else in Triton's interpreter.

The interpreter's bf16 arithmetic is silently wrong, so bf16 is tested on a GPU alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from executor.kernels import KVPool, allocate
from executor.kernels.store import reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def pairwise(factors: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Cases in which every two values of different factors meet at least once (greedy)."""
    names = list(factors)
    missing = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(names, 2)
        for x in range(len(factors[a]))
        for y in range(len(factors[b]))
    }
    cases: list[Any] = []
    while missing:
        case = dict(min(missing))
        for name in names:
            if name not in case:
                gain = [
                    sum(_pair(names, (name, i), item) in missing for item in case.items())
                    for i in range(len(factors[name]))
                ]
                # Where nothing is gained, values take turns.
                turn = len(cases) % len(gain)
                case[name] = max(range(len(gain)), key=lambda i: (gain[i], i == turn))
        missing -= {_pair(names, *items) for items in itertools.combinations(case.items(), 2)}
        cases.append({name: factors[name][case[name]] for name in names})
    return cases


def _pair(names: list[str], x: tuple[str, int], y: tuple[str, int]) -> Any:
    return (x, y) if names.index(x[0]) < names.index(y[0]) else (y, x)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module's FACTORS become the pairwise cases of its tests that take a ``case``."""
    if "case" in metafunc.fixturenames:
        cases = pairwise(metafunc.module.FACTORS)
        ids = ["-".join(str(value) for value in case.values()) for case in cases]
        metafunc.parametrize("case", cases, ids=ids)


def poison(tensor: torch.Tensor) -> None:
    """NaN where the type has one, and the largest code elsewhere."""
    tensor.view(torch.uint8).fill_(0xFF)


def on_device(pool: KVPool) -> KVPool:
    """The pool on the GPU, strides kept (a copy would pack them)."""
    if DEVICE == "cpu":
        return pool

    def move(tensor: torch.Tensor) -> torch.Tensor:
        there = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=DEVICE
        )
        return there.copy_(tensor)

    side = None if pool.side is None else move(pool.side)
    return replace(pool, k=move(pool.k), v=move(pool.v), side=side)


@dataclass
class Scene:
    """A pool in which sequences of given lengths were stored, everything else NaN."""

    pool: KVPool
    lengths: torch.Tensor
    table: torch.Tensor | None
    start: torch.Tensor | None

    @property
    def where(self) -> dict[str, torch.Tensor | None]:
        return {"table": self.table, "start": self.start}

    @property
    def where_on_device(self) -> dict[str, torch.Tensor | None]:
        return {key: None if t is None else t.to(DEVICE) for key, t in self.where.items()}


@pytest.fixture(scope="session")
def build() -> Any:
    return build_scene


def build_scene(
    lengths: list[int],
    *,
    page: int,
    head_dim: int = 64,
    kv_heads: int = 2,
    storage: str = "native",
    dtype: torch.dtype = torch.float32,
    strided: bool = False,
    keep: int = 0,
    seed: int = 0,
) -> Scene:
    """page 0: contiguous. keep > 0: a ring of that many slots a sequence, all written."""
    rng = torch.Generator().manual_seed(seed)
    slots = [min(n, keep) if keep else n for n in lengths]
    table = start = None
    if page:
        counts = [-(-n // page) for n in slots]
        total = sum(counts) + 1  # page 0 is nobody's: its NaNs show a table entry read in vain
        order = 1 + torch.randperm(total - 1, generator=rng)
        table = torch.zeros(len(lengths), max(counts, default=0) + 1, dtype=torch.int32)
        for row, ids in zip(table, order.split(counts) if counts else [], strict=True):
            row[: len(ids)] = ids
    else:
        total, page = 1, sum(slots) + 3
        start = torch.tensor([3, *itertools.accumulate(slots)])[: len(lengths)].clone()
        start[1:] += 3
    pool = allocate(total, kv_heads, page, head_dim, storage=storage, dtype=dtype)  # type: ignore[arg-type]
    if strided:
        pool = _strided(pool)
    for tensor in (pool.k, pool.v) if pool.side is None else (pool.k, pool.v, pool.side):
        poison(tensor)
    if storage == "fp8":
        assert pool.side is not None
        pool.side.copy_(torch.rand(pool.side.shape, generator=rng) * 0.02 + 0.005)
    for b, n in enumerate(slots):
        index = torch.arange(n)
        if table is None:
            assert start is not None
            where = start[b] + index
        else:
            where = table[b, index // page].long() * page + index % page
        k, v = (torch.randn(n, kv_heads, head_dim, generator=rng).to(dtype) for _ in range(2))
        reference.store(pool, k, v, where)
    return Scene(pool, torch.tensor(lengths, dtype=torch.int32), table, start)


def _strided(pool: KVPool) -> KVPool:
    """The same pool as a slice of larger tensors: K and V of a page side by side."""

    def cut(tensor: torch.Tensor, which: int) -> torch.Tensor:
        pages, heads, *rest = tensor.shape
        return torch.empty(pages, 2, heads + 1, *rest, dtype=tensor.dtype)[:, which, :heads]

    k, v, side = cut(pool.k, 0), cut(pool.v, 1), pool.side
    if side is not None and pool.storage != "fp8":
        side = cut(side, 0)
    return replace(pool, k=k, v=v, side=side)


@pytest.fixture(scope="session")
def guarded() -> Any:
    return _guarded


@contextmanager
def _guarded(*tensors: torch.Tensor) -> Iterator[None]:
    """Fails on any unmasked lane that leaves the memory of ``tensors`` (interpreter only)."""
    from triton.runtime.interpreter import InterpreterBuilder

    spans = sorted(
        (s.data_ptr(), s.data_ptr() + s.nbytes()) for s in (t.untyped_storage() for t in tensors)
    )
    low, high = (np.array(side, dtype=np.uint64) for side in zip(*spans, strict=True))

    def check(pointers: Any, mask: Any, what: str) -> None:
        lanes = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)
        address = pointers.data[lanes].astype(np.uint64)
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        span = np.searchsorted(low, address, side="right") - 1
        outside = (span < 0) | (address + np.uint64(width) > high[span.clip(0)])
        assert not outside.any(), f"{what}: {int(outside.sum())} lanes out of bounds"

    load, write = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def checked_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        check(pointers, mask, "load")
        return load(self, pointers, mask, *rest)

    def checked_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        check(pointers, mask, "store")
        return write(self, pointers, value, mask, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpreterBuilder, "create_masked_load", checked_load)
        patch.setattr(InterpreterBuilder, "create_masked_store", checked_store)
        yield


def pytest_configure(config: pytest.Config) -> None:
    # The interpreter's own, once for every loop over a range.
    config.addinivalue_line("filterwarnings", "ignore:Conversion of an array:DeprecationWarning")


@pytest.fixture(scope="session", autouse=True)
def quick_interpreter() -> Iterator[None]:
    if DEVICE != "cpu":
        yield
        return
    from tests.executor.kernels.interpreter import quick

    with quick():
        yield


@pytest.fixture(scope="session")
def device() -> str:
    return DEVICE


@pytest.fixture(scope="session")
def moved() -> Any:
    return on_device


@pytest.fixture(scope="session")
def tolerance() -> Any:
    """Absolute, by the type of q; quantised storages compute in fp16 whatever q is."""

    def of(dtype: torch.dtype, storage: str) -> float:
        exact = dtype == torch.float32 and storage == "native"
        return 2e-5 if exact else 1.5e-2 if dtype == torch.bfloat16 else 4e-3

    return of
