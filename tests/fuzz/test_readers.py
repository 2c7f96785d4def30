"""Malformed recorded runs and run folders: refused, or read as an independent reader does."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports.build import render
from reports.load import load_runs
from reports.validation import load_validation
from sim.measured.prediction import prediction
from sim.measured.read import read_measured, shipped_runs
from sim.measured.server_log import read_server_log
from sim.sweep.journal import NAME, Journal, journal_in
from tests.fuzz import independent
from tests.fuzz.conftest import Outcome
from tests.fuzz.mutate import VALUES, bytes_of, json_of, seeds, spoiled
from tests.reports.synthetic import Spec, write_folder

BENCH = {
    "model_id": "meta-llama/Llama-3.1-8B", "input_lens": [30, 10], "output_lens": [3, 1],
    "ttfts": [0.5, 0.25], "itls": [[0.1, 0.2], []], "start_times": [101.0, 100.0],
    "errors": ["", ""],
}  # fmt: skip
JUDGED = {
    "schema_version": 1, "passed": True, "repeats": 3,
    "rows": [
        {
            "policy": "paging", "name": "n", "label": "l", "unit": "s", "predicted": 1.0,
            "measured": 1.1, "error_percent": -9.0, "spread_percent": 1.0,
            "tolerance_percent": 10.0, "passed": True,
        }
    ],
}  # fmt: skip


def served(run: Any) -> list[tuple[int, int, float]]:
    """Prompt, output and seconds from first to last token of a run's requests."""
    seconds = (run.last_token_s - run.first_token_s).tolist()
    return sorted(
        zip(
            run.trace.prompt_tokens.tolist(), run.trace.output_tokens.tolist(), seconds, strict=True
        )
    )


def agree(found: list[tuple[int, int, float]], expected: list[tuple[int, int, float]]) -> None:
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert sum(row[2] for row in found) == pytest.approx(sum(row[2] for row in expected), rel=1e-6)


def test_bench_files(tmp_path: Path, outcome: Outcome) -> None:
    for rng in seeds("bench"):
        content = json_of(BENCH, rng)
        (tmp_path / "bench.json").write_bytes(content)
        run = outcome(lambda: read_measured(str(tmp_path / "bench.json")))
        if run is not None:
            agree(served(run), independent.bench(content))


READ: dict[str, Callable[[bytes], Any]] = {
    "meta.json": independent.meta,
    "requests.jsonl": independent.recorded,
    "timeseries.csv": independent.series,
    "hash_ids.jsonl": independent.hash_ids,
}


@pytest.mark.parametrize("name", READ)
def test_recorded_runs(tmp_path: Path, outcome: Outcome, name: str) -> None:
    """A shipped run of few requests, a file of it spoiled, as far as its use in a prediction."""
    shipped = Path(__file__).parents[2] / "sim" / "measured" / "runs" / shipped_runs()[0]
    for file in READ:
        lines = (shipped / file).read_bytes().split(b"\n")
        rows = lines if file.endswith(".json") else lines[:8]
        (tmp_path / file).write_bytes(b"\n".join(rows) + b"\n")
    good = (tmp_path / name).read_bytes()
    for rng in seeds(name):
        as_json = name == "meta.json" and rng.random() < 0.7
        content = json_of(json.loads(good), rng) if as_json else bytes_of(good, rng)
        (tmp_path / name).write_bytes(content)
        run = outcome(lambda: read_measured(str(tmp_path)))
        if run is None:
            continue
        expected = READ[name](content)
        if name == "requests.jsonl":
            agree(served(run), expected)
        elif name == "timeseries.csv":
            assert list(zip(*(run.series[n].tolist() for n in run.series), strict=True)) == expected
        elif name == "hash_ids.jsonl":
            counts = (run.trace.prefix.offsets[1:] - run.trace.prefix.offsets[:-1]).tolist()
            for row, count in zip(run.recorded_row.tolist(), counts, strict=True):
                assert count - expected[row] in (0, 1)  # a partial block gets an id of its own
        outcome(lambda run=run: prediction(run))


SERVER_LOG = (
    b"INFO non-default args: {'model': 'a/b', 'max_num_seqs': 64, 'block_size': 16}\n"
    b"INFO Initializing a V1 LLM engine (v0.19.0) with config: model='a/b', max_seq_len=4096, "
    b"tensor_parallel_size=1, enforce_eager=False, kv_cache_dtype=auto\n"
    b"INFO GPU KV cache size: 61,440 tokens\n"
)


def test_server_logs(tmp_path: Path, outcome: Outcome) -> None:
    for rng in seeds("server log"):
        (tmp_path / "log").write_bytes(bytes_of(SERVER_LOG, rng))
        found = outcome(lambda: read_server_log(tmp_path / "log"))
        if found is not None:
            assert all(isinstance(name, str) for name in found)
            assert type(found.get("num_gpu_blocks", 0)) is int


RAN: dict[str, dict[str, Any]] = {
    "a": {"error": None, "gpus": 1, "goodput": 1.5, "unsteady": None},
    "b": {"error": "--max-model-len 9: expected more"},
    "c": {"error": None, "gpus": 8, "goodput": 0.1 + 0.2, "unsteady": "too short"},
}


def test_finished_runs_of_sweeps(tmp_path: Path, outcome: Outcome) -> None:
    """Lines of them changed at random: what is taken is a run that was written, and unchanged."""
    with journal_in(tmp_path / "out") as journal:
        for key, row in RAN.items():
            journal.add(key, row)
    file = tmp_path / "out" / NAME
    good = file.read_bytes()
    for rng in seeds("journal"):
        lines = good.splitlines(keepends=True)
        if rng.random() < 0.5:
            place = rng.randrange(len(lines))
            lines[place] = json_of(json.loads(lines[place]), rng) + b"\n"
            file.write_bytes(b"".join(lines))
        else:
            file.write_bytes(bytes_of(good, rng))
        taken = outcome(lambda: Journal(file))
        if taken is not None:
            taken.close()
            assert taken.rows.items() <= RAN.items()
            assert all(line + b"\n" in lines for line in file.read_bytes().split(b"\n") if line)


# -- run folders ---------------------------------------------------------------------------------

RUN = Spec("paging:block_size=16", 24, "block", requests=20, samples=40)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "out" / "paging", replace(RUN))


def test_run_json(run_folder: Path, outcome: Outcome) -> None:
    good = json.loads((run_folder / "run.json").read_text())
    for number, rng in enumerate(seeds("run")):
        content = json_of(good, rng)
        (run_folder / "run.json").write_bytes(content)
        runs = outcome(lambda: load_runs([run_folder]))
        if not runs:
            continue
        rows, metrics = independent.run_json(content)
        assert rows == len(runs[0].requests["request_id"])
        if runs[0].info.kind == "simulated":  # a measured run's are only those that it recorded
            expected = [None if value is None else float(value) for _, value in metrics]
            assert [metric.value for metric in runs[0].info.metrics] == expected
        if number % 10 == 0:
            page = render(runs)
            assert "\x1b" not in page
            page.encode()


def test_run_tables(run_folder: Path, outcome: Outcome) -> None:
    files = sorted(run_folder.glob("*.parquet"))
    tables = {file: pq.read_table(file) for file in files}
    for rng in seeds("tables"):
        file = rng.choice(files)
        pq.write_table(spoiled(tables[file], rng), file)
        if rng.random() < 0.3:
            file.write_bytes(bytes_of(file.read_bytes(), rng))
        runs = outcome(lambda: load_runs([run_folder]))
        if runs:
            table = independent.parquet(file)
            for name, column in getattr(runs[0], file.stem).items():
                found = table[name]
                if pa.types.is_dictionary(found.type):
                    found = found.cast(pa.string())
                assert [None if x != x else x for x in column.tolist()] == found.to_pylist()
        pq.write_table(tables[file], file)


def test_validations(tmp_path: Path, outcome: Outcome) -> None:
    for rng in seeds("validation"):
        content = json_of(JUDGED, rng)
        (tmp_path / "v.json").write_bytes(content)
        found = outcome(lambda: load_validation(tmp_path / "v.json"))
        if found is not None:
            names = ("policy", "name", "predicted", "measured", "error_percent", "passed")
            rows = [tuple(getattr(row, name) for name in names) for row in found.rows]
            expected = independent.judged(content)
            assert [row[-1] for row in rows] == [row[-1] for row in expected]
            for row, own in zip(rows, expected, strict=True):  # whole numbers become doubles
                assert row[2:5] == tuple(None if n is None else float(n) for n in own[2:5])


def test_the_values_are_hostile_enough() -> None:
    """Each of these stands for a class that once broke a reader."""
    assert {type(value) for value in VALUES} >= {type(None), bool, int, float, str, list, dict}
