"""Malformed trace files: one line each, and none accepted with a wrong count."""

from collections import Counter
from pathlib import Path

import pytest

from tests.workloads.malformed import BASE, KINDS, outcome, parquet_outcome, variant


@pytest.mark.parametrize("name", KINDS)
def test_variants(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    assert outcome(kind, kind.write(BASE), tmp_path / "f") == "accepted"
    seen = Counter(outcome(kind, variant(kind, seed), tmp_path / "f") for seed in range(40))
    assert seen["refused"] > 10
    assert seen["accepted"] > 3


def test_parquet(tmp_path: Path) -> None:
    """Values of other types, and bytes changed anywhere."""
    seen = Counter(parquet_outcome(seed, tmp_path / "f") for seed in range(40))
    assert seen["refused"] > 10
    assert seen["accepted"] > 3
