"""Malformed models and times: refused in one line, or read as an independent reader does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sim.cost.kernels.llmservingsim import read_folder
from sim.cost.kernels.nvidia import imported
from sim.cost.kernels.profile import META_KEY, find_profile, write_profile
from sim.cost.steps.table import read_table
from sim.hardware import find_device
from sim.model.hf_config import read_config
from sim.model.presets import find_model
from tests.fuzz import independent
from tests.fuzz.conftest import Outcome
from tests.fuzz.mutate import bytes_of, json_of, seeds, spoiled
from tests.made_up import CONFIG, write_profile_folder
from workloads.errors import InputError

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


@pytest.mark.parametrize("whole", [True, False])
def test_configurations(tmp_path: Path, outcome: Outcome, whole: bool) -> None:
    file = tmp_path / "config.json"
    for rng in seeds(f"config {whole}"):
        content = json_of(CONFIG, rng) if whole else bytes_of(json.dumps(CONFIG).encode(), rng)
        file.write_bytes(content)
        model = outcome(lambda: read_config(file))
        if model is not None:
            found = model.parameters, model.kv_bytes_per_token()
            assert found == independent.config(content), content


def test_checkpoint_indexes(tmp_path: Path, outcome: Outcome) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for rng in seeds("index"):
        content = json_of({"metadata": {"total_size": 10**8}, "weight_map": {}}, rng)
        (tmp_path / "model.safetensors.index.json").write_bytes(content)
        model = outcome(lambda: read_config(tmp_path))
        if model is not None:  # each class of weights is rounded up to whole bytes
            assert abs(model.weight_bytes() - independent.index_bytes(content)) < 8, content


def holds(found: Any, expected: Any) -> bool:
    """Whether all that is expected was found; what the file leaves out has a default."""
    if isinstance(expected, dict):
        return all(name in found and holds(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(holds, found, expected))
    return bool(found == expected)


def test_cost_tables(tmp_path: Path, outcome: Outcome) -> None:
    for rng in seeds("costs"):
        content = json_of(COSTS, rng)
        (tmp_path / "costs.json").write_bytes(content)
        table = outcome(lambda: read_table(tmp_path / "costs.json"))
        if table is not None:
            assert holds(table.model_dump(), independent.cost_table(content)), content


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return str(tmp_path / "config.json")


def test_profiles(tmp_path: Path, outcome: Outcome, config: str) -> None:
    made = read_folder(write_profile_folder(tmp_path / "folder"), name="p", model=config)
    write_profile(made, tmp_path / "good.parquet")
    assert find_profile(str(tmp_path / "good.parquet")).rows == made.rows
    table = pq.read_table(tmp_path / "good.parquet")
    meta = json.loads(table.schema.metadata[META_KEY])
    file = tmp_path / "p.parquet"
    for rng in seeds("profile"):
        if rng.random() < 0.4:
            pq.write_table(table.replace_schema_metadata({META_KEY: json_of(meta, rng)}), file)
        else:
            pq.write_table(spoiled(table, rng).replace_schema_metadata(table.schema.metadata), file)
        if rng.random() < 0.3:
            file.write_bytes(bytes_of(file.read_bytes(), rng))
        profile = outcome(lambda: find_profile(str(file)))
        if profile is not None:
            found = [(kernel, *row) for kernel, rows in profile.rows.items() for row in rows]
            assert sorted(found) == independent.profile(file)


def test_profile_folders(tmp_path: Path, outcome: Outcome, config: str) -> None:
    folder = write_profile_folder(tmp_path / "folder")
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    keys = {
        "attention.csv": ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode"),
        "dense.csv": ("tokens",),
        "per_sequence.csv": ("sequences",),
    }
    for rng in seeds("folder"):
        path = rng.choice(sorted(files))
        text = bytes_of(files[path], rng)
        path.write_bytes(text if rng.random() < 0.8 else files[path].decode().encode("utf-16"))
        profile = outcome(lambda: read_folder(folder, name="p", model=config))
        if profile is not None:
            times = {name: independent.kernel_csv((folder / "tp1" / name).read_bytes(), sizes)
                     for name, sizes in keys.items()}  # fmt: skip
            assert sorted(profile.rows["attention"]) == times["attention.csv"]
            others = [
                row[2::2] for k, rows in profile.rows.items() if k != "attention" for row in rows
            ]
            assert sorted(others) == sorted(times["dense.csv"] + times["per_sequence.csv"])
        path.write_bytes(files[path])


TABLES = Path(__file__).parents[1] / "data" / "nvidia" / "h200_sxm"


def test_nvidia_tables(tmp_path: Path, outcome: Outcome) -> None:
    """Each of the tables spoiled; what is made of them can be written and read again."""
    model, device = find_model("llama-3.1-8b"), find_device("h200")
    files = {path.relative_to(TABLES): pq.read_table(path) for path in TABLES.rglob("*.parquet")}

    def put(name: Path, table: Any) -> Path:
        path = tmp_path / "h200_sxm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        return path

    for name, table in files.items():
        put(name, table)
    for rng in seeds("nvidia"):
        name = rng.choice(sorted(files))
        path = put(name, spoiled(files[name], rng))
        if rng.random() < 0.3:
            path.write_bytes(bytes_of(path.read_bytes(), rng))
        profile = outcome(lambda: imported(model, device, name="p", tables=tmp_path))
        if profile is not None:
            independent.measured_table(path)
            write_profile(profile, tmp_path / "p.parquet")
            assert find_profile(str(tmp_path / "p.parquet")).rows == profile.rows
            times = [row[-1] for rows in profile.rows.values() for row in rows]
            assert np.isfinite(times).all()
        put(name, files[name])


def test_an_unspoiled_table_is_taken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        imported(find_model("llama-3.1-8b"), find_device("h200"), name="p", tables=tmp_path)
    found = imported(
        find_model("llama-3.1-8b"), find_device("h200"), name="p", tables=TABLES.parent
    )
    assert {"attention", "qkv_proj", "lm_head"} <= set(found.rows)
