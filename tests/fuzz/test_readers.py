"""Malformed files through every reader: one line or a good value, never anything else.

FUZZ_CASES variants a reader and kind of file, from fixed seeds; `make fuzz` runs 300.
"""

import csv
import gzip
import io
import json
import math
import os
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports.load import load_runs
from reports.validation import load_validation
from sim.cost.kernels.llmservingsim import read_folder
from sim.cost.kernels.profile import find_profile
from sim.cost.steps.table import read_table
from sim.measured.read import read_measured, shipped_runs
from sim.model.hf_config import read_config
from tests.fuzz.mutate import VALUES, bytes_of, json_of
from tests.made_up import CONFIG, write_profile_folder
from tests.reports.synthetic import Spec, write_folder
from workloads import read_trace
from workloads.errors import InputError
from workloads.outgoing import visible
from workloads.read import read_any

CASES = int(os.environ.get("FUZZ_CASES", "20"))

OWN = "arrival_s,prompt_tokens,output_tokens\n0,10,5\n1.5,20,6\n2.25,30,7\n"
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,10,5\n"
    "2023-11-16 18:17:04.0000000,20,6\n2023-11-16 18:17:05.5000000,30,7\n"
)
LINES = "".join(
    json.dumps({"timestamp": t, "input_length": n, "output_length": 5, "hash_ids": ids}) + "\n"
    for t, n, ids in ((0, 513, [1, 2]), (1000, 20, [3]), (2500, 1024, [1, 4]))
)
TALK = {
    "id": "a", "block_size": 4, "hash_id_scope": "local",
    "requests": [
        {"type": "n", "t": 0.0, "in": 8, "out": 3, "hash_ids": [0, 1]},
        {"type": "s", "t": 9.5, "in": 12, "out": 2, "hash_ids": [0, 1, 2], "think_time": 1.0},
    ],
}  # fmt: skip
BENCH = {
    "model_id": "meta-llama/Llama-3.1-8B", "input_lens": [30, 10], "output_lens": [3, 1],
    "ttfts": [0.5, 0.25], "itls": [[0.1, 0.2], []], "start_times": [101.0, 100.0],
    "errors": ["", ""],
}  # fmt: skip
LINE = {"knots": [1, 64], "seconds": [0.01, 0.02]}
COSTS = {
    "schema_version": 1, "kind": "kvtwin cost table", "created_at": "2026", "versions": {},
    "hardware": {
        "kind": "cpu", "name": "x", "threads": 1, "memory_bytes": 10**9,
        "copy_bytes_per_s": 10**9, "matmul_flops_per_s": 10**9, "clock": "wall",
    },
    "model": {"name": "m", "parameters": 1000, "dtype_bytes": 2}, "method": "m", "elapsed_s": 1.0,
    "dense": LINE, "sampling": LINE,
    "sections": [
        {
            "policy": "paging", "kv_dtype": "auto", "token_bytes": 64, "kept_tokens": None,
            "decode": [{"batch": 1, "context": [1, 9], "seconds": [0.01, 0.02]}],
            "prefill": [{"tokens": 16, "past": [0, 9], "seconds": [0.01, 0.02]}],
        }
    ],
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


def outcome(read: Callable[[], Any]) -> Any:
    """What was read, or None where it was refused in one line."""
    try:
        return read()
    except InputError as error:
        said = str(error)
    assert len(visible(said)) > 10
    assert "\n" not in said, said
    return None


def seeds(kind: str) -> list[random.Random]:
    return [random.Random(f"{kind} {number}") for number in range(CASES)]


# -- traces, beside a reader of the test's own ------------------------------------------------

WHOLE = re.compile(r"(\d{1,19})(\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def counted(prompt: Any, output: Any) -> tuple[int, int]:
    def whole(value: Any) -> int:
        if isinstance(value, str):
            match = WHOLE.fullmatch(value.strip())
            assert match
            value = int(match[1])
        assert not isinstance(value, bool)
        assert value == int(value)
        assert 0 <= value < 2**63
        return int(value)

    assert whole(prompt) >= 1
    return whole(prompt), whole(output)


def own_csv(content: bytes, clock: str, names: tuple[str, str]) -> list[tuple[int, int]] | None:
    """Prompt and output of every row with output, by Python's csv; None where a row is no row."""
    try:
        rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"))) if row]
        header = [name.strip() for name in rows[0]]
        found = []
        for row in rows[1:]:
            assert len(row) == len(header)
            fields = dict(zip(header, row, strict=True))
            stamp = fields[clock].strip()
            if clock == "arrival_s":
                assert NUMBER.fullmatch(stamp)
                assert 0 <= float(stamp) < math.inf
            else:
                assert re.fullmatch(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?", stamp)
            found.append(counted(*(fields[name] for name in names)))
        return [pair for pair in found if pair[1]]
    except (AssertionError, ValueError, KeyError, IndexError, csv.Error):
        return None


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("text", "clock", "names"),
    [
        (OWN, "arrival_s", ("prompt_tokens", "output_tokens")),
        (AZURE, "TIMESTAMP", ("ContextTokens", "GeneratedTokens")),
    ],
)
def test_csv_traces(
    tmp_path: Path, text: str, clock: str, names: tuple[str, str], packed: bool
) -> None:
    header = text.split("\n")[0].encode()
    for rng in seeds(f"csv {clock} {packed}"):
        content = bytes_of(text.encode(), rng)
        stored = gzip.compress(content) if packed else content
        (tmp_path / "trace").write_bytes(bytes_of(stored, rng) if packed else stored)
        if packed and rng.random() < 0.5:
            content = b""  # the archive itself is damaged: only the manner of refusal counts
        else:
            (tmp_path / "trace").write_bytes(stored)
        trace = outcome(lambda: read_trace(tmp_path / "trace"))
        if trace is not None and content.removeprefix(b"\xef\xbb\xbf").startswith(header + b"\n"):
            expected = own_csv(content, clock, names)
            assert expected is not None, content
            found = zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
            assert sorted(found) == sorted(expected), content


def test_json_lines_traces(tmp_path: Path) -> None:
    for rng in seeds("jsonl"):
        content = bytes_of(LINES.encode(), rng)
        (tmp_path / "trace").write_bytes(content)
        trace = outcome(lambda: read_any(tmp_path / "trace"))
        if trace is None or not content.startswith(LINES[:60].encode()):
            continue
        rows = [json.loads(line) for line in content.split(b"\n") if line.strip()]
        assert all(isinstance(row, dict) for row in rows)
        expected = [counted(row["input_length"], row["output_length"]) for row in rows]
        found = zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
        assert sorted(found) == sorted(pair for pair in expected if pair[1]), content


def column(rng: random.Random, rows: int) -> pa.Array:
    """A column of another kind than it should be."""
    kinds = (
        [None] * rows, [True] * rows, ["x"] * rows, [1.5] * rows, [math.nan] * rows, [-1] * rows,
        [0] * rows, [2**62] * rows, [[1]] * rows, [{"a": 1}] * rows, [b"\xff"] * rows,
    )  # fmt: skip
    if rng.random() < 0.3:
        kind = rng.choice((pa.date32(), pa.time32("s"), pa.decimal128(10), pa.uint32()))
        return pa.array([1] * rows, pa.int32()).cast(kind)
    return pa.array(rng.choice(kinds))


def spoiled(table: pa.Table, rng: random.Random) -> pa.Table:
    name = rng.choice(table.column_names)
    at = table.column_names.index(name)
    match rng.randrange(4):
        case 0:
            return table.drop_columns([name])
        case 1:
            return table.rename_columns({name: "other"})
        case 2:
            return table.slice(0, rng.randrange(table.num_rows))
        case _:
            return table.set_column(at, name, column(rng, table.num_rows))


def test_parquet_traces(tmp_path: Path) -> None:
    table = pa.table({"arrival_s": [0.0, 1.0], "prompt_tokens": [1, 2], "output_tokens": [3, 4]})
    for rng in seeds("parquet"):
        pq.write_table(spoiled(table, rng), tmp_path / "trace")
        if rng.random() < 0.5:
            content = bytes_of((tmp_path / "trace").read_bytes(), rng)
            (tmp_path / "trace").write_bytes(content)
        trace = outcome(lambda: read_any(tmp_path / "trace"))
        assert trace is None or (trace.prompt_tokens >= 1).all()


def test_conversations(tmp_path: Path) -> None:
    for rng in seeds("conversation"):
        (tmp_path / "talk.jsonl").write_bytes(json_of(TALK, rng) + b"\n")
        trace = outcome(lambda: read_any(tmp_path / "talk.jsonl"))
        assert trace is None or len(trace) >= 1


# -- what describes models, devices and runs ----------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_configurations(tmp_path: Path, whole: bool) -> None:
    file = tmp_path / "config.json"
    for rng in seeds(f"config {whole}"):
        content = json_of(CONFIG, rng) if whole else bytes_of(json.dumps(CONFIG).encode(), rng)
        file.write_bytes(content)
        model = outcome(lambda: read_config(file))
        assert model is None or (model.parameters > 0 and model.weight_bytes() > 0)


def test_checkpoint_indexes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for rng in seeds("index"):
        index = json_of({"metadata": {"total_size": 10**8}, "weight_map": {}}, rng)
        (tmp_path / "model.safetensors.index.json").write_bytes(index)
        outcome(lambda: read_config(tmp_path))


def test_cost_tables(tmp_path: Path) -> None:
    for rng in seeds("costs"):
        (tmp_path / "costs.json").write_bytes(json_of(COSTS, rng))
        table = outcome(lambda: read_table(tmp_path / "costs.json"))
        assert table is None or min(table.dense.seconds) > 0


def test_profiles(tmp_path: Path) -> None:
    good = write_profile_folder(tmp_path / "folder")
    assert good
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    made = read_folder(tmp_path / "folder", name="p", model=str(config))
    from sim.cost.kernels.profile import META_KEY, write_profile

    write_profile(made, tmp_path / "good.parquet")
    assert find_profile(str(tmp_path / "good.parquet")).rows == made.rows
    table = pq.read_table(tmp_path / "good.parquet")
    meta = json.loads(table.schema.metadata[META_KEY])
    for rng in seeds("profile"):
        file = tmp_path / "p.parquet"
        if rng.random() < 0.4:
            pq.write_table(table.replace_schema_metadata({META_KEY: json_of(meta, rng)}), file)
        else:
            pq.write_table(spoiled(table, rng).replace_schema_metadata(table.schema.metadata), file)
        if rng.random() < 0.3:
            file.write_bytes(bytes_of(file.read_bytes(), rng))
        outcome(lambda file=file: find_profile(str(file)))


def test_profile_folders(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    write_profile_folder(folder)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for rng in seeds("folder"):
        path = rng.choice(sorted(files))
        text = bytes_of(files[path], rng)
        path.write_bytes(text if rng.random() < 0.8 else files[path].decode().encode("utf-16"))
        outcome(lambda: read_folder(folder, name="p", model=str(config)))
        path.write_bytes(files[path])


def test_bench_files(tmp_path: Path) -> None:
    for rng in seeds("bench"):
        (tmp_path / "bench.json").write_bytes(json_of(BENCH, rng))
        run = outcome(lambda: read_measured(str(tmp_path / "bench.json")))
        assert run is None or (run.last_token_s >= run.first_token_s).all()


@pytest.mark.parametrize(
    "name", ["meta.json", "requests.jsonl", "timeseries.csv", "hash_ids.jsonl"]
)
def test_recorded_runs(tmp_path: Path, name: str) -> None:
    """A shipped run of few requests, a file of it spoiled, as far as its use in a prediction."""
    from sim.measured.prediction import prediction

    shipped = Path(__file__).parents[2] / "sim" / "measured" / "runs" / shipped_runs()[0]
    for file in shipped.iterdir():
        if file.suffix in (".json", ".jsonl", ".csv"):
            lines = file.read_bytes().split(b"\n")
            rows = lines[:8] if file.suffix != ".json" else lines
            (tmp_path / file.name).write_bytes(b"\n".join(rows) + b"\n")
    if not (tmp_path / name).exists():
        pytest.skip("this run has no such file")
    good = (tmp_path / name).read_bytes()
    for rng in seeds(name):
        meta = name == "meta.json" and rng.random() < 0.7
        (tmp_path / name).write_bytes(
            json_of(json.loads(good), rng) if meta else bytes_of(good, rng)
        )
        outcome(lambda: prediction(read_measured(str(tmp_path))))


# -- run folders ---------------------------------------------------------------------------------

RUN = Spec("paging:block_size=16", 24, "block", requests=20, samples=40)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "out" / "paging"
    write_folder(folder, replace(RUN))
    return folder


def test_run_json(run_folder: Path) -> None:
    from reports.build import render

    good = json.loads((run_folder / "run.json").read_text())
    for number, rng in enumerate(seeds("run")):
        (run_folder / "run.json").write_bytes(json_of(good, rng))
        runs = outcome(lambda: load_runs([run_folder]))
        if runs and number % 5 == 0:
            page = render(runs)
            assert "\x1b" not in page
            page.encode()


def test_run_tables(run_folder: Path) -> None:
    files = sorted(run_folder.glob("*.parquet"))
    tables = {file: pq.read_table(file) for file in files}
    for rng in seeds("tables"):
        file = rng.choice(files)
        pq.write_table(spoiled(tables[file], rng), file)
        if rng.random() < 0.3:
            file.write_bytes(bytes_of(file.read_bytes(), rng))
        outcome(lambda: load_runs([run_folder]))
        pq.write_table(tables[file], file)


def test_validations(tmp_path: Path) -> None:
    for rng in seeds("validation"):
        (tmp_path / "v.json").write_bytes(json_of(JUDGED, rng))
        outcome(lambda: load_validation(tmp_path / "v.json"))


def test_the_values_are_hostile_enough() -> None:
    """Each of these stands for a class that once broke a reader."""
    assert {type(value) for value in VALUES} >= {type(None), bool, int, float, str, list, dict}
