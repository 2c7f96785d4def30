"""Landmarks, page scores, attention mass and ordered selection."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from executor.kernels import (
    accumulate_mass,
    allocate_landmarks,
    build_landmarks,
    decode,
    page_scores,
    select,
    select_pages,
)
from executor.kernels.decode import reference as decode_reference
from executor.kernels.topk import reference

FACTORS: dict[str, list[Any]] = {
    "storage": ["native", "fp8", "int8", "int4"],
    "head_dim": [64, 80, 128, 256],
    "page": [1, 16, 128],
    "group": [1, 3, 8, 32],
    "strided": [False, True],
}


def test_pages_are_ranked_as_in_the_reference(
    case: Any, build: Any, device: str, moved: Any
) -> None:
    page = case["page"]
    lengths = [0, 1, page + 1, 70]
    same = {key: case[key] for key in ("storage", "head_dim", "page", "strided")}
    scene = build(lengths, **same)
    pages = torch.cat([row[: -(-n // page)] for row, n in zip(scene.table, lengths, strict=True)])
    fill = [n - i * page for n in lengths for i in range(-(-n // page))]
    fill_t = torch.tensor(fill, dtype=torch.int32).clamp(max=page)
    marks = allocate_landmarks(scene.pool, torch.float32)
    marks.fill_(torch.nan)
    expected = reference.landmarks(scene.pool, pages, fill_t, marks.clone())
    got = build_landmarks(moved(scene.pool), pages.to(device), fill_t.to(device), marks.to(device))
    torch.testing.assert_close(got.cpu(), expected, atol=1e-5, rtol=1e-5, equal_nan=True)

    q = torch.randn(len(lengths), 2 * case["group"], case["head_dim"])
    want = reference.page_scores(q, expected, scene.table, scene.lengths, page)
    scores = page_scores(q.to(device), got, scene.table.to(device), scene.lengths.to(device), page)
    torch.testing.assert_close(scores.cpu(), want, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("storage", ["native", "fp8", "int8", "int4"])
@pytest.mark.parametrize("page", [0, 16, 64])
def test_mass_matches_the_reference(
    storage: str, page: int, build: Any, device: str, moved: Any
) -> None:
    scene = build([0, 1, 65, 30], page=page, storage=storage)
    q = torch.randn(4, 6, 64)
    _, lse = decode_reference.decode(q, scene.pool, scene.lengths, **scene.where)
    mass = torch.rand(scene.pool.k.shape[:3])
    got = mass.to(device, copy=True)
    # In a ring the newest key is anywhere; by default it is the last.
    newest = torch.tensor([0, 0, 40, 3], dtype=torch.int32) if page > 1 else None
    accumulate_mass(
        q.to(device),
        lse.to(device),
        moved(scene.pool),
        scene.lengths.to(device),
        got,
        max_length=65,
        newest=None if newest is None else newest.to(device),
        **scene.where_on_device,
    )
    where = scene.where
    reference.accumulate_mass(q, lse, scene.pool, scene.lengths, mass, newest=newest, **where)
    torch.testing.assert_close(got.cpu(), mass, atol=1e-4, rtol=1e-4)


def test_ties_go_to_the_lower_index_and_padding_is_minus_one() -> None:
    scores = torch.tensor([[1.0, 3.0, 3.0, -2.0], [0.0, -0.0, -torch.inf, 0.0]])
    assert select(scores, 2).tolist() == [[1, 2], [0, 1]]
    assert select(scores, 3).tolist() == [[0, 1, 2], [0, 1, 3]]
    assert select(scores, 6).tolist() == [[0, 1, 2, 3, -1, -1], [0, 1, 3, -1, -1, -1]]


def test_selection_is_a_stable_sort() -> None:
    rng = torch.Generator().manual_seed(4)
    scores = torch.randint(-3, 4, (5, 3, 40), generator=rng) / 2
    scores[0, :, 7:] = -torch.inf
    assert torch.equal(select(scores, 11), reference.select(scores, 11))


def test_selected_pages_attend_like_the_full_cache_when_all_fit(
    build: Any, device: str, moved: Any
) -> None:
    scene = build([0, 5, 33, 64], page=16)
    q = torch.randn(4, 4, 64)
    scores = torch.randn(4, 2, scene.table.shape[1])
    beyond = torch.arange(scores.shape[-1]) * 16 >= scene.lengths[:, None, None]
    scores = scores.masked_fill(beyond, -torch.inf)
    table, lengths = select_pages(scores, scene.table, scene.lengths, 16, 4)
    assert lengths.tolist() == [[n, n] for n in (0, 5, 33, 64)]
    table, lengths = select_pages(scores, scene.table, scene.lengths, 16, 2)
    assert lengths.tolist() == [[n, n] for n in (0, 5, 17, 32)]
    pool = moved(scene.pool)
    out, _ = decode(q.to(device), pool, lengths.to(device), max_length=32, table=table.to(device))
    expected, _ = decode_reference.decode(q, scene.pool, lengths, table=table)
    torch.testing.assert_close(out.cpu(), expected, atol=2e-5, rtol=2e-5)


def test_in_bounds(build: Any, guarded: Any, device: str) -> None:
    if device != "cpu":
        pytest.skip("the guard watches the interpreter")
    scene = build([0, 17], page=16, head_dim=80, storage="int4")
    pool, table, lengths = scene.pool, scene.table, scene.lengths
    q, lse, mass = torch.randn(2, 6, 80), torch.zeros(2, 6), torch.zeros(pool.k.shape[:3])
    pages, fill = table[1, :2].contiguous(), torch.tensor([16, 1], dtype=torch.int32)
    marks = allocate_landmarks(pool, torch.float32)
    newest = lengths - 1
    with guarded(pool.k, pool.side, q, lse, mass, pages, fill, marks, table, lengths, newest):
        build_landmarks(pool, pages, fill, marks)
        accumulate_mass(q, lse, pool, lengths, mass, max_length=17, table=table, newest=newest)
