"""Copying pages, and swapping them through a staging buffer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from executor.kernels import copy, gather, scatter

SHAPES = [
    ((9, 2, 16, 64), torch.float16),
    ((9, 2, 3, 5), torch.int8),  # 30 bytes a page: copied by twos
    ((9, 1, 1, 7), torch.uint8),
    ((9, 2, 256, 128), torch.float32),
    ((9, 2, 16, 2), torch.float16),
]


def make(shape: tuple[int, ...], dtype: torch.dtype, strided: bool, device: str) -> torch.Tensor:
    whole = torch.randint(0, 100, (shape[0], 3, *shape[1:])).to(dtype).to(device)
    return whole[:, 1] if strided else whole[:, 1].contiguous()


@pytest.mark.parametrize(("shape", "dtype"), SHAPES)
@pytest.mark.parametrize("strided", [False, True])
def test_moves_whole_pages(
    shape: tuple[int, ...], dtype: torch.dtype, strided: bool, device: str
) -> None:
    cache = make(shape, dtype, strided, device)
    before = cache.clone()
    copy(cache, torch.tensor([[0, 5], [3, 1], [0, 7]], device=device))
    expected = before.clone()
    expected[[5, 1, 7]] = before[[0, 3, 0]]
    assert torch.equal(cache, expected)

    staging = torch.zeros(4, *shape[1:], dtype=dtype, device=device)
    pages = torch.tensor([8, 2, 5], device=device)
    gather(cache, pages, staging)
    assert torch.equal(staging[:3], cache[pages])
    assert (staging[3] == 0).all()
    back = torch.tensor([6, 0, 4], device=device)
    scatter(staging, cache, back)
    expected[back] = expected[pages]
    assert torch.equal(cache, expected)


def test_nothing_to_move_and_nothing_that_fits(device: str) -> None:
    cache = make((4, 2, 16, 64), torch.float16, False, device)
    copy(cache, torch.empty(0, 2, dtype=torch.int64, device=device))
    ids = torch.tensor([0], device=device)
    with pytest.raises(ValueError, match="pages differ"):
        gather(cache, ids, torch.empty(1, 2, 16, 32, dtype=torch.float16, device=device))
    with pytest.raises(ValueError, match="contiguous"):
        gather(cache[..., :32], ids, torch.empty(1, 2, 16, 32, dtype=torch.float16, device=device))


def test_stays_in_bounds(guarded: Any, device: str) -> None:
    if device != "cpu":
        pytest.skip("the guard watches the interpreter")
    cache = make((4, 2, 3, 5), torch.int8, False, device)
    staging, pages = torch.zeros(2, 2, 3, 5, dtype=torch.int8), torch.tensor([3, 0])
    with guarded(cache, staging, pages):
        gather(cache, pages, staging)
        scatter(staging, cache, pages)
