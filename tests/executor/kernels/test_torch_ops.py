"""The plain torch path gives what the references say; it needs no Triton at all."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from executor.kernels import torch_ops
from executor.kernels.decode import reference as decode_reference
from executor.kernels.topk import reference as topk_reference

FACTORS: dict[str, list[Any]] = {
    "storage": ["native", "fp8", "int8", "int4"],
    "page": [1, 16, 256],
    "group": [1, 3, 8],
    "dtype": [torch.float32, torch.float16, torch.bfloat16],
    "strided": [False, True],
}
LENGTHS = [0, 1, 31, 256, 33]


def close(dtype: torch.dtype) -> dict[str, float]:
    bound = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    return {"atol": bound, "rtol": bound}


def test_attention_matches_the_reference(case: Any, build: Any) -> None:
    dtype = case["dtype"]
    same = {key: case[key] for key in ("storage", "page", "dtype", "strided")}
    scene = build(LENGTHS, **same)
    q = torch.randn(len(LENGTHS), 2 * case["group"], 64).to(dtype)
    given = (q, scene.pool, scene.lengths)
    out, lse = torch_ops.decode(*given, max_length=256, table=scene.table)
    expected, expected_lse = decode_reference.decode(*given, table=scene.table)
    torch.testing.assert_close(out, expected, **close(dtype))
    torch.testing.assert_close(lse, expected_lse, **close(dtype))


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


def test_importing_needs_no_triton() -> None:
    code = "import sys, executor.kernels.torch_ops; sys.exit('triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
