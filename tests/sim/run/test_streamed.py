"""Runs that are written while they go on are those that are written at their end."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from math import fsum
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sim.run import form, parquet, tables
from sim.run.compiled import state
from sim.run.compiled.execute import run_compiled
from sim.run.folder import write_run
from sim.run.judged import metrics_of
from sim.run.parquet import Files, Stored, arrow_table, write_table
from sim.run.simulation import Run, Setup, execute, prepare
from sim.run.tables import parts
from workloads.schema import Provenance, Trace
from workloads.sums import pairwise_sum
from workloads.synthetic import generate

TIGHT = 700 * 16 * 524_288  # bytes: 700 blocks of 16 tokens of Llama-2-7B
WORKLOADS = {
    "paging, preempting": {"policy": "paging"},
    "single steps": {"policy": "paging:block_size=1", "fast_forward": False},
    "stopped while requests wait": {"policy": "paging+int8", "horizon": 12.0},
    "window": {"policy": "sliding_window:window=256,sinks=4"},
    "whole contexts": {"policy": "preallocation"},
    "static": {"policy": "paging", "batching": "static"},
    "longest victim": {"policy": "paging", "victim": "longest"},
    "swap": {"policy": "paging", "preemption": "swap"},
    "growing": {"policy": "growing"},
    "prefixes": {"policy": "paging+prefix"},
    "planned ahead": {"policy": "paging", "engine": "vllm-0.32"},
    "level": {"policy": "paging", "slo": "ttft_p99=2s,e2e_p90=9s"},
}
NAMES = ("requests", "steps", "timeline")


def setup_of(name: str) -> Setup:
    trace = generate(
        100, 12.0, prompt="lognormal:mean=400,cv=1", output="lognormal:mean=90,cv=1", seed=5
    )
    return prepare(
        trace, model="llama-2-7b", gpu="a100-80gb", kv_cache_memory=TIGHT, max_num_seqs=64,
        max_model_len=4096, max_num_batched_tokens=2048, **WORKLOADS[name],
    )  # fmt: skip


def digests(run: Run, folder: Path, written: bool) -> list[str]:
    """Of the three tables, and of the metrics."""
    metrics = write_run(run, folder, "test", written)["metrics"]
    found = [sha256((folder / f"{name}.parquet").read_bytes()).hexdigest() for name in NAMES]
    return [*found, repr(metrics)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_streamed_runs_give_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unstreamed, interpreted into files, and lowered through a window of few requests and events.

    Row groups are short, so that every form writes several of them.
    """
    monkeypatch.setenv("KVTWIN_COMPILE", "0")
    monkeypatch.setattr(parquet, "GROUP_ROWS", 40)
    monkeypatch.setattr("sim.engine.record.ROWS_AT_ONCE", 7)
    for module in (tables, parquet):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 64)
    folders = [tmp_path / each for each in ("whole", "streamed", "lowered")]
    for folder in folders:
        folder.mkdir()
    setup = setup_of(name)
    whole = digests(execute(setup), folders[0], written=False)
    streamed = execute(setup, sink=Files(folders[1]))
    assert isinstance(streamed.log.requests, Stored)
    assert digests(streamed, folders[1], written=True) == whole
    assert pq.ParquetFile(folders[1] / "requests.parquet").metadata.num_row_groups == 3
    monkeypatch.setattr(state, "ROWS", 5)
    job, cost = form._job(setup, setup.cost()), setup.cost()
    log = run_compiled(replace(job, cost=cost), compiled=False, sink=Files(folders[2]), slots=3)
    lowered = Run(setup, log, cost, metrics_of(setup, log))
    assert digests(lowered, folders[2], written=True) == whole


def test_buffers_full_at_once_are_copied_in_the_order_of_the_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pairs of prompts of 60 and 124 tokens fill buffers of 64 and 128 in the same step. Who is
    copied first decides where both come to lie; a window's slots end between the two of a pair.
    """
    monkeypatch.setattr(state, "ROWS", 50)
    rows = np.arange(120)
    prompts = np.where(rows % 2, 124, 60)
    trace = Trace(
        "pairs", rows // 2 * 0.4, prompts, np.full(120, 40), Provenance("made", 120)
    )  # fmt: skip
    setup = prepare(
        trace, model="llama-2-7b", gpu="a100-80gb", policy="growing:start=64",
        kv_cache_memory=1500 * 524_288, max_model_len=512,
    )  # fmt: skip
    whole = execute(setup).log
    job = form._job(setup, setup.cost())
    windowed = run_compiled(job, compiled=False, slots=5)
    assert windowed.held.tobytes() == whole.held.tobytes()
    for name, column in whole.steps.items():
        assert windowed.steps[name].tobytes() == column.tobytes(), name


DYING = """
import os, signal
import sim.engine.record
from sim.run import parquet
sim.engine.record.ROWS_AT_ONCE, parquet.GROUP_ROWS = 20, 40
write = parquet._Growing._write
def dying(self, columns):
    write(self, columns)
    if self._file.name == "steps.parquet":
        os.kill(os.getpid(), signal.SIGKILL)
parquet._Growing._write = dying
from sim.cli import main
main()
"""
RUN = [
    "simulate", "azure-2023-conv", "--first", "150", "--model", "llama-2-7b", "--gpu", "a100-40gb",
    "--policy", "paging", "--no-report", "--json", "-o", "out",
]  # fmt: skip


def test_a_run_killed_with_a_row_group_written_leaves_the_earlier_one(tmp_path: Path) -> None:
    def run(code: str) -> int:
        command = [sys.executable, "-c", code, *RUN]
        root = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "KVTWIN_COMPILE": "0"}
        return subprocess.run(command, cwd=tmp_path, env=root, capture_output=True).returncode

    def written() -> dict[str, bytes]:
        files = (tmp_path / "out").rglob("*")
        return {str(file): file.read_bytes() for file in files if file.suffix == ".parquet"}

    whole = "from sim.cli import main; main()"
    assert run(whole) == 0
    before = written()
    assert len(before) == 3
    assert run(DYING) == -signal.SIGKILL
    assert written() == before
    (unfinished,) = tmp_path.glob(".out.kvtwin/new/paging/*.parquet")
    assert unfinished.name == "steps.parquet"
    assert run(whole) == 0
    assert written() == before
    assert [child.name for child in tmp_path.iterdir()] == ["out"]


def test_a_short_table_is_one_group_and_stays_in_memory(tmp_path: Path) -> None:
    """Its file is that of `pyarrow.parquet.write_table` with the same compression."""
    columns = {"request_id": np.arange(1000), "x_s": np.where(np.arange(1000) % 7, 0.5, np.nan)}
    sink = Files(tmp_path)
    for start in range(0, 1000, 90):
        sink.add("t", {name: column[start : start + 90] for name, column in columns.items()})
    assert isinstance(sink.whole("t"), dict)
    pq.write_table(arrow_table(columns), tmp_path / "plain.parquet", compression="zstd")
    assert (tmp_path / "t.parquet").read_bytes() == (tmp_path / "plain.parquet").read_bytes()


def test_a_stored_table_is_read_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 300)
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 64)
    draw = np.random.default_rng(3)
    columns = {
        "request_id": np.arange(1000),
        "status": draw.integers(0, 4, 1000),
        "whole_s": draw.random(1000),
        "none_s": np.where(draw.random(1000) < 0.5, np.nan, draw.random(1000)),
        "never_s": np.full(1000, np.nan),
    }
    write_table(columns, tmp_path / "t.parquet")
    stored = Stored(tmp_path / "t.parquet", tuple(columns))
    assert list(stored) == list(columns)
    for name, column in columns.items():
        assert stored[name].dtype == column.dtype
        np.testing.assert_array_equal(stored[name], column)
    sums = [len(number) for number, _ in parts(stored, "request_id", "never_s")]
    assert sum(sums) == 1000
    assert len(sums) > 1
    with pytest.raises(KeyError):
        stored["other"]


@pytest.mark.parametrize("count", [0, 1, 9, 65_536, 65_537, 131_073, 400_003])
def test_a_sum_by_parts_is_the_same_for_all_parts(count: int) -> None:
    """To the last bit; and as near to the exact one as halving is: 2⁻⁵³ a level, twenty of them."""
    draw = np.random.default_rng(count)
    values = draw.random(count) * 10.0 ** draw.integers(-9, 9, count)
    cuts = np.sort(draw.integers(0, count + 1, 20))
    found = pairwise_sum(count, iter(np.split(values, cuts)))
    assert found == pairwise_sum(count, iter([values]))
    assert found == pytest.approx(fsum(values), rel=40 * 2**-53, abs=0)


@pytest.mark.parametrize(("rows", "without"), [(5_000, set()), (5_001, {"time_s"})])
def test_large_tables_spend_no_dictionary_on_what_does_not_repeat(
    rows: int, without: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instants are all different, of `running` there are 7. One row group stays as it was."""
    monkeypatch.setattr(parquet, "GROUP_ROWS", 5_000)
    columns = {"time_s": np.arange(rows) / 3, "running": np.arange(rows) % 7}
    parquet.write_table(columns, tmp_path / "a.parquet")
    kept = pq.ParquetFile(tmp_path / "a.parquet")
    group = kept.metadata.row_group(0)
    chunks = [group.column(i) for i in range(2)]
    assert {c.path_in_schema for c in chunks if not c.has_dictionary_page} == without
    back = kept.read().to_pydict()
    assert back == {k: column.tolist() for k, column in columns.items()}
