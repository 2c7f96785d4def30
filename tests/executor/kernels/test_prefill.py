"""Causal prefill, with and without context, against its reference."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
import torch

from executor.kernels import prefill
from executor.kernels.configs import Config
from executor.kernels.prefill import reference

HALVES = [torch.float16] if not torch.cuda.is_available() else [torch.float16, torch.bfloat16]
FACTORS: dict[str, list[Any]] = {
    "head_dim": [64, 80, 96, 112, 128, 192, 256],
    "group": [1, 2, 3],
    "page": [0, 1, 16, 128],
    "storage": ["native", "native", "fp8", "int8", "int4"],
    "mode": ["all", "window", "ring", "first"],
    "dtype": [torch.float32, torch.float32, *HALVES],
    "strided": [False, True],
}
NEW, PAST = [1, 0, 17, 70], [65, 5, 0, 33]
# Time in the interpreter goes by the tile, whatever its size.
BIG = Config(128, 8, 2, block_m=128) if not torch.cuda.is_available() else None


def draw(group: int, head_dim: int, dtype: torch.dtype, total: int) -> tuple[torch.Tensor, ...]:
    rng = torch.Generator().manual_seed(2)
    shapes = [(total, heads, head_dim) for heads in (2 * group, 2, 2)]
    q, k, v = (torch.randn(shape, generator=rng).to(dtype) for shape in shapes)
    return q, k, v


def test_matches_the_reference(
    case: Any, build: Any, device: str, moved: Any, tolerance: Any
) -> None:
    mode = case["mode"]
    window, sinks = (20, 3) if mode in ("window", "ring") else (0, 0)
    past = [0] * len(NEW) if mode == "first" else PAST
    scene = build(
        past,
        page=case["page"],
        head_dim=case["head_dim"],
        storage=case["storage"],
        dtype=case["dtype"],
        strided=case["strided"],
        keep=window + sinks if mode == "ring" else 0,
    )
    options = {"window": window, "sinks": sinks, "ring": mode == "ring"}
    total = sum(NEW)
    q, k, v = draw(case["group"], case["head_dim"], case["dtype"], total)
    cu = torch.tensor([0, *accumulate(NEW)], dtype=torch.int32)
    out = torch.full(q.shape, torch.nan, dtype=q.dtype, device=device)
    lse = torch.full(q.shape[:2], torch.nan, device=device)
    prefill(
        *(t.to(device) for t in (q, k, v)),
        moved(scene.pool),
        cu.to(device),
        scene.lengths.to(device),
        max_new=max(NEW),
        max_past=max(past),
        **scene.where_on_device,
        **options,
        out=out,
        lse=lse,
        config=BIG,
    )
    expected, expected_lse = reference.prefill(
        q, k, v, scene.pool, cu, scene.lengths, **scene.where, **options
    )
    close = tolerance(case["dtype"], "native")
    torch.testing.assert_close(out.cpu(), expected, atol=close, rtol=close)
    torch.testing.assert_close(lse.cpu(), expected_lse, atol=close, rtol=close)


@pytest.mark.parametrize(("new", "past"), [(1, 1328), (5, 18), (129, 463)])
@pytest.mark.parametrize("window", [0, 100])
def test_ragged_lengths_with_shipped_tiles(
    new: int, past: int, window: int, build: Any, device: str, moved: Any
) -> None:
    scene = build([past], page=16, kv_heads=1)
    q, k, v = draw(1, 64, torch.float32, new)
    q, k, v = q[:, :1], k[:, :1], v[:, :1]  # strided too
    cu = torch.tensor([0, new], dtype=torch.int32)
    out, _ = prefill(
        *(t.to(device) for t in (q, k, v)),
        moved(scene.pool),
        cu.to(device),
        scene.lengths.to(device),
        max_new=new,
        max_past=past,
        **scene.where_on_device,
        window=window,
        config=Config(64, 8, 2, block_m=64),
    )
    expected, _ = reference.prefill(
        q, k, v, scene.pool, cu, scene.lengths, **scene.where, window=window
    )
    torch.testing.assert_close(out.cpu(), expected, atol=2e-5, rtol=2e-5)


def test_chunks_add_up_to_the_whole(build: Any, device: str, moved: Any) -> None:
    """A prompt in two chunks, the first stored in between, is the prompt at once."""
    from executor.kernels import store

    empty = build([80], page=16)
    pool, table = moved(empty.pool), empty.table.to(device)
    q, k, v = (t.to(device) for t in draw(2, 64, torch.float32, 80))
    slots = (table[0, torch.arange(80) // 16].long() * 16).cpu() + torch.arange(80) % 16

    def run(first: int, last: int) -> torch.Tensor:
        part = slice(first, last)
        cu = torch.tensor([0, last - first], dtype=torch.int32, device=device)
        past = torch.tensor([first], dtype=torch.int32, device=device)
        new = q[part], k[part], v[part]
        bounds = {"max_new": last - first, "max_past": first}
        out, _ = prefill(*new, pool, cu, past, table=table, config=BIG, **bounds)
        store(pool, k[part], v[part], slots[part].to(device))
        return out

    whole = run(0, 80)
    chunked = torch.cat([run(0, 37), run(37, 80)])
    torch.testing.assert_close(chunked, whole, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("storage", ["native", "int4"])
def test_stays_in_bounds(storage: str, build: Any, guarded: Any, device: str) -> None:
    if device != "cpu":
        pytest.skip("the guard watches the interpreter")
    scene = build(PAST, page=16, head_dim=80, storage=storage)
    q, k, v = draw(2, 80, torch.float32, sum(NEW))
    cu = torch.tensor([0, *accumulate(NEW)], dtype=torch.int32)
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2])
    pool = scene.pool
    side = [] if pool.side is None else [pool.side]
    with guarded(q, k, v, pool.k, pool.v, *side, scene.table, scene.lengths, cu, out, lse):
        bounds = {"max_new": max(NEW), "max_past": max(PAST), "config": BIG}
        where = {**scene.where, **bounds}
        prefill(q, k, v, pool, cu, scene.lengths, out=out, lse=lse, **where)


def test_refuses_mixed_types(build: Any) -> None:
    scene = build([5], page=16)
    q, k, v = draw(1, 64, torch.float32, 3)
    bounds = {"max_new": 3, "max_past": 5, "table": scene.table}
    with pytest.raises(ValueError, match="k must be"):
        prefill(q, k.half(), v.half(), scene.pool, scene.lengths, scene.lengths, **bounds)
