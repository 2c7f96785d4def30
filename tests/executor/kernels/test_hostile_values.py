"""What a first contact brings: strides of one token, extreme scales, NaN, odd views."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from executor.kernels import (
    allocate,
    build_landmarks,
    copy,
    decode,
    page_scores,
    prefill,
    store,
    torch_ops,
)
from executor.kernels.store import reference
from executor.kernels.topk import allocate_landmarks

ONE = torch.tensor([0])


def attended(pool: Any, q: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    table = torch.zeros(1, 1, dtype=torch.int32, device=q.device)
    lengths = torch.tensor([length], dtype=torch.int32, device=q.device)
    out, lse = decode(q, pool, lengths, max_length=length, table=table, pieces=1)
    return out.cpu(), lse.cpu()


def test_one_token_cut_from_wider_rows(device: str) -> None:
    """`.contiguous()` leaves strides of such a cut alone, so that k's and v's differ."""
    rows, wider = torch.randn(1, 6, 64, device=device), torch.randn(1, 8, 64, device=device)
    k, v = rows[:, 4:].contiguous(), wider[:, 6:].contiguous()
    assert k.stride() != v.stride()
    pool = allocate(1, 2, 16, 64, dtype=torch.float32, device=device)
    store(pool, k, v, ONE.to(device))
    assert torch.equal(pool.k[0, :, 0], k[0])
    assert torch.equal(pool.v[0, :, 0], v[0])
    cu, past = (torch.tensor(x, dtype=torch.int32, device=device) for x in ([0, 1], [0]))
    out, _ = prefill(rows[:, :4], k, v, pool, cu, past, max_new=1, max_past=0, table=past[:, None])
    torch.testing.assert_close(out, v.repeat_interleave(2, 1))  # one key: its value


@pytest.mark.parametrize(("amplitude", "error"), [(1e-5, 0.007), (1e-4, 0.006), (1.0, 0.004)])
def test_small_int8_values_keep_their_largest(amplitude: float, error: float, device: str) -> None:
    """A scale is rounded up: rounded down, codes clamp and the largest element suffers most.

    Half a step is 0.4 % of the largest at best; fp16's subnormal steps of 6e-8 coarsen 8e-8.
    """
    x = torch.randn(16, 1, 64) * amplitude
    pool = allocate(1, 1, 16, 64, storage="int8", device=device)
    store(pool, x.to(device), x.to(device), torch.arange(16, device=device))
    moved = replace(pool, k=pool.k.cpu(), v=pool.v.cpu(), side=pool.side.cpu())
    back = reference.dequantise(moved)[0][0, 0]
    peak = x[:, 0].abs().amax(-1, keepdim=True)
    assert float(((back - x[:, 0]).abs() / peak).max()) <= error


@pytest.mark.parametrize("scale", [torch.float16, torch.float32])
def test_large_int8_values_saturate_and_stay_finite(scale: torch.dtype, device: str) -> None:
    pool = allocate(1, 1, 16, 64, storage="int8", scale=scale, device=device)
    k, v = torch.randn(1, 1, 64, device=device), torch.full((1, 1, 64), 1e6, device=device)
    store(pool, k, v, ONE.to(device))
    out, _ = attended(pool, torch.randn(1, 1, 64, device=device), 1)
    torch.testing.assert_close(out, torch.full_like(out, 511 * 127.0), rtol=1e-3, atol=0)


@pytest.mark.parametrize("storage", ["native", "fp8", "int8", "int4"])
@pytest.mark.parametrize("where", ["k", "v"])
def test_nan_shows(storage: Any, where: str, device: str) -> None:
    pool = allocate(1, 1, 16, 64, storage=storage, dtype=torch.float32, device=device)
    k, v = torch.randn(2, 3, 1, 64)
    (k if where == "k" else v)[1, 0, 5] = torch.nan
    store(pool, k.to(device), v.to(device), torch.arange(3, device=device))
    out, lse = attended(pool, torch.randn(1, 1, 64, device=device), 3)
    assert out.isnan().any()
    assert lse.isnan().all() == (where == "k")
    here = allocate(1, 1, 16, 64, storage=storage, dtype=torch.float32)
    reference.store(here, k, v, torch.arange(3))
    assert torch.stack(reference.dequantise(here)).isnan().any()


def test_an_output_whose_heads_are_strided_is_refused(device: str) -> None:
    pool = allocate(1, 1, 16, 64, dtype=torch.float32, device=device)
    q = torch.randn(1, 1, 64, device=device)
    out = torch.empty(1, 1, 128, device=device)[..., ::2]
    lengths = torch.ones(1, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match="out must be"):
        decode(q, pool, lengths, max_length=1, table=lengths[:, None], out=out)
    with pytest.raises(ValueError, match="out must be"):
        prefill(
            q, q, q, pool, lengths, lengths, max_new=1, max_past=0, table=lengths[:, None], out=out
        )


def test_fp8_scales_may_be_a_slice(device: str) -> None:
    made = allocate(1, 2, 16, 64, storage="fp8", device=device)
    wide = torch.full((2, 2, 3), torch.nan, device=device)
    wide[..., 0] = torch.tensor([[0.5, 0.25], [0.125, 2.0]], device=device)
    pool = replace(made, side=wide[..., 0])
    k, v = torch.randn(2, 1, 2, 64, device=device)
    store(pool, k, v, ONE.to(device))
    out, _ = attended(pool, torch.randn(1, 2, 64, device=device), 1)
    torch.testing.assert_close(out, v.cpu(), rtol=0.07, atol=0.07)  # one key: its value


@pytest.mark.parametrize("storage", ["int8", "int4", "fp8", "native"])
def test_landmarks_bound_the_keys_they_stand_for(storage: Any, device: str) -> None:
    pool = allocate(1, 1, 16, 64, storage=storage, dtype=torch.float32, device=device)
    k = torch.randn(16, 1, 64)
    store(pool, k.to(device), k.to(device), torch.arange(16, device=device))
    page, full = (torch.tensor([n], dtype=torch.int32, device=device) for n in (0, 16))
    marks = build_landmarks(pool, page, full, allocate_landmarks(pool))
    moved = replace(
        pool,
        k=pool.k.cpu(),
        v=pool.v.cpu(),
        side=None if pool.side is None else pool.side.cpu(),
    )
    keys = reference.dequantise(moved)[0][0, 0]
    assert (marks[0, 0, 0].cpu().float() <= keys.amin(0)).all()
    assert (marks[0, 0, 1].cpu().float() >= keys.amax(0)).all()
    here = torch_ops.build_landmarks(moved, page.cpu(), full.cpu(), allocate_landmarks(moved))
    assert torch.equal(here, marks.cpu())
    q = torch.randn(1, 1, 64, device=device)
    bound = page_scores(q, marks, page[None], full, 16)
    assert float(bound) >= float((keys @ q[0, 0].cpu()).max()) - 1e-4


def test_pages_of_a_view_at_an_odd_offset(device: str) -> None:
    whole = torch.randint(0, 100, (9 * 16 + 1,), dtype=torch.int8, device=device)
    cache = whole[1:].view(9, 1, 4, 4)  # pages of 16 bytes, one byte off
    before = cache.clone()
    copy(cache, torch.tensor([[0, 5]], device=device))
    assert torch.equal(cache[5], before[0])
