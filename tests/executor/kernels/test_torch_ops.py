"""The plain torch path gives what the references say; it needs no Triton at all."""

from __future__ import annotations

import subprocess
import sys
from itertools import accumulate
from typing import Any

import pytest
import torch

from executor.kernels import torch_ops
from executor.kernels.decode import reference as decode_reference
from executor.kernels.prefill import reference as prefill_reference
from executor.kernels.topk import reference as topk_reference

FACTORS: dict[str, list[Any]] = {
    "storage": ["native", "fp8", "int8", "int4"],
    "page": [0, 1, 16, 256],
    "mode": ["all", "window", "ring"],
    "group": [1, 3, 8],
    "dtype": [torch.float32, torch.float16, torch.bfloat16],
    "strided": [False, True],
}
LENGTHS = [0, 1, 31, 256, 33]


def close(dtype: torch.dtype) -> dict[str, float]:
    bound = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    return {"atol": bound, "rtol": bound}


def test_attention_matches_the_references(case: Any, build: Any) -> None:
    mode, dtype = case["mode"], case["dtype"]
    window, sinks = (0, 0) if mode == "all" else (20, 3)
    same = {key: case[key] for key in ("storage", "page", "dtype", "strided")}
    scene = build(LENGTHS, **same, keep=window + sinks if mode == "ring" else 0)
    options = {**scene.where, "window": window, "sinks": sinks, "ring": mode == "ring"}
    q = torch.randn(len(LENGTHS), 2 * case["group"], 64).to(dtype)
    out, lse = torch_ops.decode(q, scene.pool, scene.lengths, max_length=256, **options)
    expected, expected_lse = decode_reference.decode(q, scene.pool, scene.lengths, **options)
    torch.testing.assert_close(out, expected, **close(dtype))
    torch.testing.assert_close(lse, expected_lse, **close(dtype))

    new = [3, 0, 40, 1, 2]
    q = torch.randn(sum(new), 2 * case["group"], 64).to(dtype)
    k, v = (torch.randn(sum(new), 2, 64).to(dtype) for _ in range(2))
    cu = torch.tensor([0, *accumulate(new)], dtype=torch.int32)
    given = (q, k, v, scene.pool, cu, scene.lengths)
    out, _ = torch_ops.prefill(*given, max_new=40, max_past=256, **options)
    expected, _ = prefill_reference.prefill(*given, **options)
    torch.testing.assert_close(out, expected, **close(dtype))


@pytest.mark.parametrize("storage", ["native", "fp8", "int8", "int4"])
def test_ranking_matches_the_references(storage: str, build: Any) -> None:
    scene = build([0, 1, 40], page=16, storage=storage)
    pages, fill = scene.table[2, :3], torch.tensor([16, 16, 8], dtype=torch.int32)
    marks = torch.full((scene.pool.pages, 2, 2, 64), 0.5)
    expected = topk_reference.landmarks(scene.pool, pages, fill, marks.clone())
    torch.testing.assert_close(
        torch_ops.build_landmarks(scene.pool, pages, fill, marks.clone()), expected
    )
    q = torch.randn(3, 6, 64)
    given = (q, expected, scene.table, scene.lengths, 16)
    torch.testing.assert_close(torch_ops.page_scores(*given), topk_reference.page_scores(*given))
    _, lse = decode_reference.decode(q, scene.pool, scene.lengths, table=scene.table)
    mass = torch.rand(scene.pool.k.shape[:3])
    want = mass.clone()
    attended = (q, lse, scene.pool, scene.lengths)
    torch_ops.accumulate_mass(*attended, mass, max_length=40, table=scene.table)
    topk_reference.accumulate_mass(*attended, want, table=scene.table)
    torch.testing.assert_close(mass, want)


def test_moves_pages() -> None:
    cache = torch.randn(6, 2, 4, 8)
    before, staging = cache.clone(), torch.zeros(2, 2, 4, 8)
    torch_ops.copy(cache, torch.tensor([[0, 4], [1, 5]]))
    torch_ops.gather(cache, torch.tensor([4, 2]), staging)
    torch_ops.scatter(staging, cache, torch.tensor([3, 1]))
    assert torch.equal(cache[[3, 1, 5]], before[[0, 2, 1]])


def test_importing_needs_no_triton() -> None:
    code = "import sys, executor.kernels.torch_ops; sys.exit('triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
