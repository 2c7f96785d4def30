"""One file of each kind, spoiled in a way that once was a traceback or went unnoticed.

By the command line alone: each takes one line that names the file or the field, and exit code 2.
`tests/fuzz` has hundreds of variants a kind.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command import kvtwin
from tests.made_up import CONFIG, write_profile_folder

DEEP = b"[" * 100_000
SYSTEM = ["--model", "model/config.json", "--gpu", "a100-40gb"]
SIMULATE = ["simulate", "trace.csv", *SYSTEM, "--no-report", "-o", "out"]
SIZE = ["size", *SYSTEM, "--context=1000"]
COSTED = [*SIMULATE, "--policy", "paging", "--cost", "costs.json"]
PROFILED = [*SIMULATE, "--policy", "paging", "--cost", "table", "--profile", "p.parquet"]
BENCHED = ["compare-run", "bench.json", *SYSTEM, "--engine", "vllm-0.19"]
MEASURED = ["compare-run", "measured"]
CONVERT = ["profiles", "convert", "profile", "--model", "model/config.json", "-o", "q.parquet"]
REPORT = ["report", "runs", "-o", "report.html"]

PARAMETERS = 2 * 1000 * 512 + 4 * (2 * 512 * 512 + 2 * 512 * 128 + 3 * 512 * 1024 + 2 * 512) + 512
"""Embedding and head; four layers of attention, MLP and norms; the last norm."""
TOKEN_BYTES = 4 * 2 * 2 * 64 * 2
"""Layers, keys and values, heads, their size, bytes of bfloat16."""

LINE = {"knots": [1, 64], "seconds": [0.01, 0.02]}
COSTS = {
    "schema_version": 1, "kind": "kvtwin cost table", "created_at": "2026", "versions": {},
    "hardware": {
        "kind": "cpu", "name": "x", "threads": 1, "memory_bytes": 10**9,
        "copy_bytes_per_s": 10**9, "matmul_flops_per_s": 10**9, "clock": "wall",
    },
    "model": {"name": "m", "parameters": PARAMETERS, "dtype_bytes": 2}, "method": "m",
    "elapsed_s": 1.0, "dense": LINE, "sampling": LINE,
    "sections": [
        {
            "policy": "paging", "kv_dtype": "auto", "token_bytes": TOKEN_BYTES,
            "kept_tokens": None,
            "decode": [{"batch": 1, "context": [1, 9], "seconds": [0.05, 0.06]}],
            "prefill": [{"tokens": 16, "past": [0, 9], "seconds": [0.05, 0.06]}],
        }
    ],
}  # fmt: skip
BENCH = {
    "model_id": "m", "input_lens": [30, 10], "output_lens": [3, 1], "ttfts": [0.5, 0.25],
    "itls": [[0.1, 0.2], []], "start_times": [101.0, 100.0], "errors": ["", ""],
}  # fmt: skip
SHIPPED = Path(__file__).parents[2] / "sim" / "measured" / "runs" / "rtx-4090-llama-3.1-8b"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that are all taken."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,6\n")
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(CONFIG))
    (folder / "costs.json").write_text(json.dumps(COSTS))
    (folder / "bench.json").write_text(json.dumps(BENCH))
    shutil.copytree(SHIPPED, folder / "measured")
    for name in ("requests.jsonl", "timeseries.csv", "hash_ids.jsonl"):
        file = folder / "measured" / name
        if file.exists():
            file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:9]))
    changed("measured/meta.json", "num_requests", to=9)(folder)
    write_profile_folder(folder / "profile")
    for words in ([*CONVERT[:-1], "p.parquet"], [*SIMULATE[:-1], "runs"]):
        done = kvtwin(*words, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good, tmp_path / "in")
    return tmp_path / "in"


Spoil = Callable[[Path], object]


def put(name: str, content: bytes | str) -> Spoil:
    encoded = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(encoded)


def changed(name: str, *path: str | int, to: Any) -> Spoil:
    """A JSON file with the value at a path replaced; a text of digits is put in as it is."""

    def spoil(folder: Path) -> None:
        content = json.loads((folder / name).read_bytes())
        holder = content
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = "HERE"
        digits = isinstance(to, str) and to.isdigit()
        text = json.dumps(content).replace('"HERE"', to if digits else json.dumps(to))
        (folder / name).write_text(text)

    return spoil


def table(name: str, column: str, values: Callable[[Any], Any]) -> Spoil:
    """A Parquet file with a column replaced."""

    def spoil(folder: Path) -> None:
        found = pq.read_table(folder / name)
        place = found.column_names.index(column)
        pq.write_table(found.set_column(place, column, values(found[column])), folder / name)

    return spoil


def metadata(to: bytes) -> Spoil:
    """A profile with other metadata."""

    def spoil(folder: Path) -> None:
        found = pq.read_table(folder / "p.parquet")
        (key,) = (key for key in found.schema.metadata if b"kvtwin" in key.lower())
        pq.write_table(found.replace_schema_metadata({key: to}), folder / "p.parquet")

    return spoil


def replaced(name: str, old: str, new: str, encoding: str = "utf-8") -> Spoil:
    def spoil(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_bytes(text.replace(old, new).encode(encoding))

    return spoil


CONFIG_FILE, META, RUN_JSON = "model/config.json", "measured/meta.json", "runs/paging/run.json"
SECTION = ("sections", 0)
CASES: dict[str, tuple[Spoil, list[str], str]] = {
    "7: other token size": (changed("costs.json", *SECTION, "token_bytes", to=17), COSTED, "17"),
    "7: batch 0": (changed("costs.json", *SECTION, "decode", 0, "batch", to=0), COSTED, "batch"),
    "7: kept -3": (changed("costs.json", *SECTION, "kept_tokens", to=-3), COSTED, "kept_tokens"),
    "7: context -1": (
        changed("costs.json", *SECTION, "decode", 0, "context", to=[-1, 9]), COSTED, "context",
    ),
    "7: not ascending": (changed("costs.json", "dense", "knots", to=[64, 1]), COSTED, "dense"),
    "7: no flops": (
        changed("costs.json", "hardware", "matmul_flops_per_s", to=-1), COSTED, "matmul_flops",
    ),
    "23: deep config": (put(CONFIG_FILE, DEEP), SIZE, "config.json"),
    "23: deep costs": (put("costs.json", DEEP), COSTED, "costs.json"),
    "23: deep profile": (metadata(DEEP), PROFILED, "p.parquet"),
    "23: deep bench": (put("bench.json", DEEP), BENCHED, "bench.json"),
    "23: deep meta": (put(META, DEEP), MEASURED, "meta.json"),
    "23: deep run": (put(RUN_JSON, DEEP), REPORT, "run.json"),
    "23: deep validation": (put("runs/validation.json", DEEP), REPORT, "validation.json"),
    "24: 5,000 digits": (changed(CONFIG_FILE, "vocab_size", to="9" * 5000), SIZE, "5000 digits"),
    "24: beyond doubles": (changed(CONFIG_FILE, "vocab_size", to="1" + "0" * 400), SIZE, "401"),
    "24: lists of types": (changed(CONFIG_FILE, "layer_types", to=[["a"]] * 4), SIZE, "layer_ty"),
    "24: infinite share": (
        replaced(CONFIG_FILE, "{", '{"partial_rotary_factor": Infinity, '), SIZE, "Infinity",
    ),
    "24: a billion layers": (
        changed(CONFIG_FILE, "num_hidden_layers", to=10**9), SIZE, "num_hidden_layers",
    ),
    "25: no decode": (changed("costs.json", *SECTION, "decode", to=[]), COSTED, "decode"),
    "25: no prefill": (changed("costs.json", *SECTION, "prefill", to=[]), COSTED, "prefill"),
    "25: no token bytes": (
        changed("costs.json", *SECTION, "token_bytes", to=0), COSTED, "token_bytes",
    ),
    "25: no copy rate": (
        changed("costs.json", "hardware", "copy_bytes_per_s", to=0), COSTED, "copy_bytes_per_s",
    ),
    "25: negative times": (changed("costs.json", "dense", "seconds", to=[-9, -8]), COSTED, "dense"),
    "25: endless times": (
        changed("costs.json", "dense", "seconds", to=[1e300, 2e300]), COSTED, "dense",
    ),
    "26: no object": (metadata(b"[]"), PROFILED, "p.parquet"),
    "26: nothing in it": (metadata(b"{}"), PROFILED, "p.parquet"),
    "26: kernels are numbers": (
        table("p.parquet", "kernel", lambda c: pa.array([1] * len(c))), PROFILED, "kernel",
    ),
    "26: null": (
        table("p.parquet", "time_us", lambda c: pa.array([None] * len(c), pa.float64())),
        PROFILED, "time_us",
    ),
    "26: NaN": (
        table("p.parquet", "time_us", lambda c: pa.array([float("nan")] * len(c))),
        PROFILED, "time_us",
    ),
    "26: zero": (
        table("p.parquet", "time_us", lambda c: pa.array([0.0] * len(c))), PROFILED, "p.parquet",
    ),
    "26: text": (
        table("p.parquet", "time_us", lambda c: pa.array(["x"] * len(c))), PROFILED, "time_us",
    ),
    "27: lengths of text": (changed("bench.json", "output_lens", to=["x", 1]), BENCHED, "output_l"),
    "27: lengths of lists": (changed("bench.json", "output_lens", to=[[], 1]), BENCHED, "output_l"),
    "27: one gap": (changed("bench.json", "itls", to=[1, 2]), BENCHED, "itls"),
    "27: endless lengths": (
        changed("bench.json", "input_lens", to=[10**30, 1]), BENCHED, "input_lens",
    ),
    "27: no hardware": (changed(META, "hardware", to=None), MEASURED, "meta.json"),
    "27: no cache": (changed(META, "kv_cache", to=[]), MEASURED, "kv_cache"),
    "27: no options": (changed(META, "engine_kwargs", to="x"), MEASURED, "engine_kwargs"),
    "27: series of no text": (
        put("measured/timeseries.csv", b"t,running,waiting,kv_cache_pct\n\xff,1,1,1\n"), MEASURED,
        "timeseries.csv",
    ),
    "27: series of NaN": (
        put("measured/timeseries.csv", "t,running,waiting,kv_cache_pct\n1,nan,1,1\n"), MEASURED,
        "timeseries.csv",
    ),
    "27: a long field": (
        put("measured/timeseries.csv", f"t,running,waiting,kv_cache_pct\n{'1' * 200_000},1,1,1\n"),
        MEASURED, "timeseries.csv",
    ),
    "28: UTF-16": (replaced("profile/tp1/dense.csv", "l", "l", "utf-16"), CONVERT, "dense.csv"),
    "28: Latin-1": (
        replaced("profile/meta.yaml", "Imaginary", "Gr\u00f6\u00dfer", "latin-1"), CONVERT,
        "meta.yaml",
    ),
    "28: no column": (replaced("profile/tp1/dense.csv", "layer,", "other,"), CONVERT, "dense.csv"),
    "28: beyond 32 bits": (
        replaced("profile/tp1/dense.csv", ",64,", f",{2**40},"), CONVERT, "dense.csv",
    ),
    "29: pressure": (changed(RUN_JSON, "limits", "pressure", to=3), REPORT, "limits"),
    "29: rules": (changed(RUN_JSON, "limits", "rules", to=3), REPORT, "limits"),
    "29: a column of text": (
        table("runs/paging/steps.parquet", "start_s", lambda c: pa.array(["x"] * len(c))), REPORT,
        "start_s",
    ),
    "29: a column of lists": (
        table("runs/paging/requests.parquet", "finish_s", lambda c: pa.array([[1.0]] * len(c))),
        REPORT, "finish_s",
    ),
    "29: a column of dates": (
        table("runs/paging/timeline.parquet", "running",
              lambda c: pa.array([1] * len(c), pa.int32()).cast(pa.date32())),
        REPORT, "running",
    ),
    "35: escapes of a configuration": (
        changed(CONFIG_FILE, "model_type", to="\x1b[31mred\nhere"), SIZE, "red",
    ),
    "35: escapes of a run": (
        changed(META, "engine_kwargs", "model", to="\x1b[31mred\nhere"), MEASURED, "red",
    ),
    "39: a true version": (changed(RUN_JSON, "schema_version", to=True), REPORT, "schema_version"),
    "39: a version of a table": (
        changed("costs.json", "schema_version", to=True), COSTED, "schema_version",
    ),
    "39: an option twice": (
        lambda folder: None, [*SIMULATE, "--engine", "vllm-0.19:null_blocks=1,null_blocks=2"],
        "null_blocks",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_one_line(folder: Path, case: str) -> None:
    spoil, words, named = CASES[case]
    spoil(folder)
    there = sorted(folder.rglob("*"))
    done = kvtwin(*words, cwd=folder)
    errors = [line for line in done.stderr.split("\n") if line.startswith("kvtwin: error: ")]
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(errors) == 1, done.stderr
    assert named in errors[0]
    assert "\x1b" not in done.stderr
    assert sorted(folder.rglob("*")) == there  # nothing half-written


@pytest.mark.parametrize("words", [COSTED, PROFILED, BENCHED, MEASURED, CONVERT, SIZE, REPORT])
def test_unspoiled_they_are_taken(folder: Path, words: list[str]) -> None:
    assert kvtwin(*words, cwd=folder).returncode in (0, 1)  # 1: out of tolerance


def test_a_line_separator_inside_of_a_text_ends_no_line(folder: Path) -> None:
    """27: U+2028 is legal in JSON."""
    file = folder / "measured" / "requests.jsonl"
    first, *others = file.read_text(encoding="utf-8").split("\n")
    note = '{"note": "a\u2028b", ' + first[1:]
    file.write_text("\n".join([note, *others]), encoding="utf-8")
    assert kvtwin(*MEASURED, cwd=folder).returncode in (0, 1)


def test_a_limit_with_braces_is_drawn(folder: Path) -> None:
    """29: the name of a limit is no format."""
    changed(RUN_JSON, "limits", "a {b}", to="{c}")(folder)
    done = kvtwin(*REPORT, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "a {b}" in (folder / "report.html").read_text()
