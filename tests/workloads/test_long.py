"""Long tables, read by batches into files, are those that are read whole."""

import mmap
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workloads import read_trace
from workloads.errors import InputError
from workloads.readers import long
from workloads.schema import Trace
from workloads.spool import forget, slices
from workloads.synthetic import generate
from workloads.write import write_trace

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is long from one row on, and read by a few."""
    monkeypatch.setattr(long, "LEAST_ROWS", 1)
    monkeypatch.setattr(long, "LEAST_BYTES", 1)
    monkeypatch.setattr(long, "ROWS", 7)
    monkeypatch.setattr("workloads.spool.ROWS", 7)


def is_mapped(trace: Trace) -> bool:
    owner = trace.arrival_s.base
    return isinstance(owner, memoryview) and isinstance(owner.obj, mmap.mmap)


def same(one: Trace, other: Trace) -> None:
    for name in COLUMNS:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
        assert getattr(one, name).dtype == getattr(other, name).dtype, name
    assert one.provenance == other.provenance


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_columns_and_provenance_are_those_of_reading_whole(
    suffix: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made = generate(100, 3.0, prompt="lognormal:mean=300,cv=1", seed=4)
    write_trace(made, tmp_path / f"t{suffix}")
    whole = read_trace(tmp_path / f"t{suffix}")
    request.getfixturevalue("short")
    read = read_trace(tmp_path / f"t{suffix}")
    same(read, whole)
    assert is_mapped(read)
    assert not is_mapped(whole)


def test_rows_without_output_are_dropped_wherever_they_are(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """BurstGPT's failed rows have neither; the first row that is kept is at 0 s."""
    rows = np.arange(40)
    table = pa.table({
        "Timestamp": rows + 5,
        "Request tokens": np.where(rows % 5, 10 + rows, 0),
        "Response tokens": np.where(rows % 3, rows, 0),
        "Model": ["x"] * 40,
        "Total tokens": rows,
        "Log Type": ["y"] * 40,
    })  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    whole = read_trace(tmp_path / "t.parquet")
    request.getfixturevalue("short")
    read = read_trace(tmp_path / "t.parquet")
    same(read, whole)
    assert is_mapped(read)
    assert sum(read.provenance.dropped.values()) == 40 - len(read) > 0


@pytest.mark.parametrize("late", [3, 7, 20])
def test_rows_out_of_order_are_sorted_as_before(
    late: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Within a batch and at the beginning of one."""
    arrival_s = np.arange(30.0)
    arrival_s[late] = 0.5
    lengths = np.arange(30) + 1
    columns = {"arrival_s": arrival_s, "prompt_tokens": lengths, "output_tokens": lengths}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    whole = read_trace(tmp_path / "t.parquet")
    request.getfixturevalue("short")
    read = read_trace(tmp_path / "t.parquet")
    same(read, whole)
    assert read.provenance.notes


@pytest.mark.usefixtures("short")
def test_a_fault_is_found_as_in_a_short_table(tmp_path: Path) -> None:
    lengths = np.arange(30)
    columns = {"arrival_s": lengths / 2, "prompt_tokens": lengths, "output_tokens": lengths}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"row 1\b.*prompt_tokens"):
        read_trace(tmp_path / "t.parquet")


@pytest.mark.usefixtures("short")
def test_mapped_columns_leave_memory_and_come_back(tmp_path: Path) -> None:
    write_trace(generate(50, 3.0, seed=4), tmp_path / "t.parquet")
    read = read_trace(tmp_path / "t.parquet")
    before = read.arrival_s.tobytes()
    parts = [read.arrival_s[rows].tobytes() for rows in slices(read)]
    assert len(parts) == 8
    assert b"".join(parts) == before
    forget(read)
    assert read.arrival_s.tobytes() == before
    assert pickle.loads(pickle.dumps(read)).arrival_s.tobytes() == before
    with pytest.raises(ValueError, match="read-only"):
        read.prompt_tokens[0] = 1
