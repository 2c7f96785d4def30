"""Storing new tokens, bit for bit as the reference does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from executor.kernels import allocate, store
from executor.kernels.store import reference

HALVES = [torch.float16] if not torch.cuda.is_available() else [torch.float16, torch.bfloat16]
FACTORS: dict[str, list[Any]] = {
    "storage": ["native", "fp8", "int8", "int4"],
    "head_dim": [64, 80, 96, 112, 128, 192, 256],
    "page": [0, 1, 8, 16, 32, 128, 256],
    "dtype": [torch.float32, *HALVES],
    "tokens": [1, 16, 37],
    "strided": [False, True],
    "index": [torch.int32, torch.int64],
}


def test_matches_the_reference(case: Any, build: Any, device: str, moved: Any) -> None:
    tokens, head_dim = case["tokens"], case["head_dim"]
    rng = torch.Generator().manual_seed(3)
    fused = torch.randn(tokens, 6, head_dim, generator=rng).to(case["dtype"])
    fused[0] = 0  # a scale of 0
    k, v = (fused[:, :2], fused[:, 4:]) if case["strided"] else (fused[:, :2].clone(),) * 2
    same = {key: case[key] for key in ("head_dim", "storage", "dtype", "strided", "page")}
    here = build([64, 30], **same).pool
    slots = torch.randperm(here.pages * here.page_size, generator=rng)[:tokens].to(case["index"])
    slots[tokens // 2] = -1 if tokens > 1 else slots[0]
    there = moved(build([64, 30], **same).pool)
    reference.store(here, k, v, slots)
    store(there, *(t.to(device) for t in (k, v, slots)))
    for name in ("k", "v", "side"):
        want, got = getattr(here, name), getattr(there, name)
        if want is not None:
            want, got = (t.contiguous().view(torch.uint8) for t in (want, got.cpu()))
            assert torch.equal(want, got), name


def test_every_half_becomes_the_nearest_e4m3(device: str) -> None:
    """All finite fp16 values, subnormals and saturation included."""
    bits = torch.arange(-(2**15), 2**15).short()
    value = bits.view(torch.float16)
    value = value[value.isfinite()]
    value = torch.cat([value, value.new_zeros(-len(value) % 128)]).view(-1, 1, 128)
    pool = allocate(1, 1, len(value), 128, storage="fp8", device=device)
    store(pool, value.to(device), value.to(device), torch.arange(len(value), device=device))
    expected = value.float().clamp(-448, 448).to(torch.float8_e4m3fn)
    assert torch.equal(
        pool.k.cpu().view(torch.uint8).flatten(), expected.view(torch.uint8).flatten()
    )


@pytest.mark.parametrize(("storage", "error"), [("fp8", 0.07), ("int8", 0.005), ("int4", 0.07)])
def test_reads_back_within_its_step(storage: str, error: float) -> None:
    pool = allocate(4, 2, 16, 128, storage=storage)  # type: ignore[arg-type]
    k, v = torch.randn(2, 64, 2, 128)
    reference.store(pool, k, v, torch.arange(64))
    back = reference.dequantise(pool)[0].transpose(1, 2).reshape(64, 2, 128)
    assert (back - k).abs().max() <= error * k.abs().max()


@pytest.mark.parametrize("storage", ["native", "fp8", "int8", "int4"])
def test_stays_in_bounds(storage: str, build: Any, guarded: Any, device: str) -> None:
    if device != "cpu":
        pytest.skip("the guard watches the interpreter")
    pool = build([40], page=8, head_dim=80, storage=storage, dtype=torch.float16).pool
    k, v = torch.randn(2, 19, 2, 80).half()
    slots = torch.arange(pool.pages * pool.page_size)[-19:].clone()
    side = [] if pool.side is None else [pool.side]
    with guarded(pool.k, pool.v, *side, k, v, slots):
        store(pool, k, v, slots)


def test_pool_bytes_count_the_scales() -> None:
    plain = allocate(2, 2, 16, 128).nbytes
    assert plain == 2 * 2 * 2 * 16 * 128 * 2
    assert allocate(2, 2, 16, 128, storage="int8").nbytes == plain // 2 + 2 * 2 * 16 * 4
    assert allocate(2, 2, 16, 128, storage="int4").nbytes == plain // 4 + 2 * 2 * 16 * 32
    assert allocate(2, 2, 16, 128, storage="fp8").nbytes == plain // 2 + 2 * 2 * 4


def test_refuses_what_does_not_fit() -> None:
    pool = allocate(2, 2, 16, 64)
    k = torch.empty(3, 2, 64, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="k and v must be"):
        store(pool, k[..., :32], k[..., :32], torch.arange(3))
    with pytest.raises(ValueError, match="slots"):
        store(pool, k, k, torch.arange(4))
    with pytest.raises(ValueError, match="side data"):
        type(pool)(pool.k, pool.v, 64, "fp8")
