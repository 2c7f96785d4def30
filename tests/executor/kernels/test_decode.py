"""Decode attention against its reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from executor.kernels import allocate, decode
from executor.kernels.configs import Config
from executor.kernels.decode import reference
from executor.kernels.decode.pieces import FIELDS, Pieces, equal_pieces, lay_out

HALVES = [torch.float16] if not torch.cuda.is_available() else [torch.float16, torch.bfloat16]
FACTORS: dict[str, list[Any]] = {
    "group": [1, 2, 3, 4, 5, 7, 8, 16, 32],
    "head_dim": [64, 80, 96, 112, 128, 192, 256],
    "page": [0, 1, 8, 16, 32, 128, 256],
    "storage": ["native", "native", "fp8", "int8", "int4"],
    "mode": ["all", "split", "window", "window split", "ring"],
    "dtype": [torch.float32, *HALVES],
    "strided": [False, True],
}


def edges(page: int) -> list[int]:
    """Empty, one key, and either side of a page's and a tile's edge."""
    near = page if page > 1 else 33
    return [0, 1, near - 1, near, near + 1, 130 if page < 128 else 2 * page + 1]


def in_pieces(counts: list[int], device: str) -> Pieces:
    """So many of each sequence."""
    each = np.empty((sum(counts), FIELDS), dtype=np.int32)
    rows = np.empty((len(counts), 2), dtype=np.int32)
    whole = lay_out(np.ones(len(counts), dtype=np.int64), np.array(counts), each, rows)
    return Pieces(torch.from_numpy(each).to(device), torch.from_numpy(rows).to(device), whole)


# Time in the interpreter goes by the program and the tile, whatever their sizes.
TILES = None if torch.cuda.is_available() else Config(64, 4, 2)


def test_matches_the_reference(
    case: Any, build: Any, device: str, moved: Any, tolerance: Any
) -> None:
    window, sinks = (37, 3) if "window" in case["mode"] or case["mode"] == "ring" else (0, 0)
    ring = case["mode"] == "ring"
    lengths = edges(case["page"])
    scene = build(
        lengths,
        page=case["page"],
        head_dim=case["head_dim"],
        storage=case["storage"],
        dtype=case["dtype"],
        strided=case["strided"],
        keep=window + sinks if ring else 0,
        kv_heads=2 if case["group"] < 16 else 1,
    )
    options = {"window": window, "sinks": sinks, "ring": ring}
    shape = (len(lengths), scene.pool.kv_heads * case["group"], case["head_dim"])
    q = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(case["dtype"])
    out = torch.full(shape, torch.nan, dtype=q.dtype, device=device)
    lse = torch.full(shape[:2], torch.nan, device=device)
    expected, expected_lse = reference.decode(
        q, scene.pool, scene.lengths, **scene.where, **options
    )
    decode(
        q.to(device),
        moved(scene.pool),
        scene.lengths.to(device),
        max_length=max(lengths),
        **scene.where_on_device,
        **options,
        out=out,
        lse=lse,
        pieces=in_pieces([1, 1, 1, 1, 2, 3], device) if "split" in case["mode"] else 1,
        config=TILES,
    )
    close = tolerance(case["dtype"], case["storage"])
    torch.testing.assert_close(out.cpu(), expected, atol=close, rtol=close)
    torch.testing.assert_close(lse.cpu(), expected_lse, atol=close, rtol=close)
    assert (out[0] == 0).all()
    assert (lse[0] == -torch.inf).all()


def test_every_length_at_a_tile_edge(build: Any, device: str, moved: Any) -> None:
    lengths = [15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129]
    scene = build(lengths, page=16, kv_heads=1, dtype=torch.float16)
    q = torch.randn(len(lengths), 4, 64).half()
    pool, where = moved(scene.pool), scene.where_on_device
    for pieces in (1, in_pieces([1] * 6 + [2] * 6, device)):
        out, _ = decode(
            q.to(device), pool, scene.lengths.to(device), max_length=129, pieces=pieces, **where
        )
        expected, _ = reference.decode(q, scene.pool, scene.lengths, **scene.where)
        torch.testing.assert_close(out.cpu(), expected, atol=2e-3, rtol=2e-3)


def test_query_and_output_may_be_slices(build: Any, device: str, moved: Any) -> None:
    scene = build([20, 5], page=16)
    fused = torch.randn(2, 12, 64, device=device)
    out = torch.full((2, 6, 128), torch.nan, device=device)
    where = scene.where_on_device
    pool, lengths = moved(scene.pool), scene.lengths.to(device)
    decode(fused[:, :6], pool, lengths, max_length=20, out=out[..., :64], **where)
    expected, _ = reference.decode(fused[:, :6].cpu(), scene.pool, scene.lengths, **scene.where)
    torch.testing.assert_close(out[..., :64].cpu(), expected, atol=2e-5, rtol=2e-5)
    assert out[..., 64:].isnan().all()


def test_large_queries_do_not_overflow_half(build: Any, device: str, moved: Any) -> None:
    """Quantised storages compute in fp16, whose range a query may exceed."""
    scene = build([50], page=16, storage="int8")
    q = torch.randn(1, 4, 64) * 1e6
    options = {"scale": 1e-7}
    out, _ = decode(
        q.to(device),
        moved(scene.pool),
        scene.lengths.to(device),
        max_length=50,
        **scene.where_on_device,
        **options,
    )
    expected, _ = reference.decode(q, scene.pool, scene.lengths, **scene.where, **options)
    torch.testing.assert_close(out.cpu(), expected, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("storage", ["native", "fp8", "int8", "int4"])
@pytest.mark.parametrize("page", [0, 16, 128])
def test_stays_in_bounds(storage: str, page: int, build: Any, guarded: Any, device: str) -> None:
    if device != "cpu":
        pytest.skip("the guard watches the interpreter")
    scene = build([0, 1, 47, 129], page=page, head_dim=80, storage=storage, dtype=torch.float16)
    q = torch.randn(4, 6, 80).half()
    out, lse = torch.empty_like(q), torch.empty(4, 6)
    pool, where = scene.pool, next(t for t in scene.where.values() if t is not None)
    side = [] if pool.side is None else [pool.side]
    pieces = equal_pieces(4, 1, torch.device(device))
    with guarded(q, pool.k, pool.v, *side, pieces.each, where, scene.lengths, out, lse):
        options = {"max_length": 129, "out": out, "lse": lse, "pieces": pieces}
        decode(q, pool, scene.lengths, **options, **scene.where)


@pytest.mark.parametrize(("storage", "bytes_each"), [("native", 2), ("int8", 1)])
@pytest.mark.parametrize("far", ["page", "head"])
def test_offsets_pass_2_to_31(
    storage: str, bytes_each: int, far: str, guarded: Any, device: str
) -> None:
    """Gigabytes of address space, of which only the touched pages ever become memory."""
    if device != "cpu":
        pytest.skip("reserves address space, which on a GPU is memory")
    if far == "page":
        pages, heads, page = 2**31 // (16 * 128) + 2, 1, 16
    else:
        pages, heads, page = 1, 3, 2**30 // 128 + 16
    made = allocate(pages, heads, page, 128, storage=storage, dtype=torch.float16)  # type: ignore[arg-type]
    assert made.k.numel() > 2**31
    from executor.kernels import KVPool, store

    pool = KVPool(made.k, made.k, 128, made.storage, made.side)  # V on K: half the space
    k = torch.randn(16, heads, 128).half()
    first = (pages - 1) * page if far == "page" else page - 16
    q = torch.randn(1, heads, 128).half()
    lengths = torch.tensor([16], dtype=torch.int32)
    where = {"table": torch.tensor([[pages - 1]], dtype=torch.int32)}
    if far == "head":
        where = {"start": torch.tensor([first])}
    out, lse = torch.empty_like(q), torch.empty(1, heads)
    slots = first + torch.arange(16)
    side = [] if pool.side is None else [pool.side]
    pieces = equal_pieces(1, 1, torch.device(device))
    seen = [pool.k, *side, q, k, lengths, slots, *where.values(), pieces.each, out, lse]
    with guarded(*seen):
        store(pool, k, k, slots)
        decode(q, pool, lengths, max_length=16, out=out, lse=lse, pieces=pieces, **where)
    scores = torch.einsum("hd,thd->ht", q[0].float(), k.float()) * 128**-0.5
    expected = torch.einsum("ht,thd->hd", scores.softmax(-1), k.float())
    torch.testing.assert_close(out[0].float(), expected, atol=2e-2, rtol=2e-2)


def test_an_empty_batch(build: Any, device: str, moved: Any) -> None:
    scene = build([5], page=16)
    out, lse = decode(
        torch.empty(0, 4, 64, device=device),
        moved(scene.pool),
        torch.empty(0, dtype=torch.int32, device=device),
        max_length=0,
        table=torch.empty(0, 1, dtype=torch.int32, device=device),
    )
    assert out.shape == (0, 4, 64)
    assert lse.shape == (0, 4)


@pytest.mark.parametrize(
    ("heads", "options", "message"),
    [
        (3, {}, "do not divide"),
        (4, {"table": None}, "table or start"),
        (4, {"sinks": 2}, "need a window"),
        (4, {"ring": True}, "need a window"),
        (4, {"start": torch.zeros(1, dtype=torch.int64)}, "not both"),
    ],
)
def test_refuses(heads: int, options: dict[str, Any], message: str, build: Any) -> None:
    scene = build([5], page=16)
    arguments = {"table": scene.table, **options}
    with pytest.raises(ValueError, match=message):
        decode(torch.empty(1, heads, 64), scene.pool, scene.lengths, max_length=5, **arguments)
