"""Folders that load, and those that say in one line why they don't."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports.load import load_runs
from tests.reports.synthetic import PAGING, PREALLOCATION, Spec, Write
from workloads.errors import InputError


def test_a_run_folder_and_a_folder_of_run_folders_load_alike(write_run: Write) -> None:
    one, two = write_run(PAGING), write_run(PREALLOCATION)
    assert [run.label for run in load_runs([one, two])] == [PAGING.name, PREALLOCATION.name]
    assert [run.label for run in load_runs([one.parent])] == [PAGING.name, PREALLOCATION.name]


def test_runs_keep_the_order_of_their_command(write_run: Write) -> None:
    named = [Spec(name, 24, "block") for name in ("paging:block_size=2", "b", "a", "c")]
    for spec, order in zip(named, (0, 1, None, 2), strict=True):
        folder = write_run(spec, **({} if order is None else {"order": order})).parent
    assert [run.label for run in load_runs([folder])] == ["paging:block_size=2", "b", "c", "a"]


def test_status_is_read_whether_dictionary_encoded_or_plain(write_run: Write) -> None:
    folder = write_run(Spec("paging:block_size=16", 24, "block", longest=300))
    encoded = load_runs([folder])[0].count("refused")
    table = pq.read_table(folder / "requests.parquet")
    plain = table.set_column(
        table.schema.get_field_index("status"), "status", table["status"].cast(pa.string())
    )
    pq.write_table(plain, folder / "requests.parquet")
    assert load_runs([folder])[0].count("refused") == encoded > 0


def test_equal_names_are_told_apart(write_run: Write) -> None:
    folders = [write_run(PAGING, "a100"), write_run(PAGING, "h100")]
    labels = [run.label for run in load_runs(folders)]
    assert labels == [f"{PAGING.name} · a100", f"{PAGING.name} · h100"]
    again = [run.label for run in load_runs([folders[0], folders[0]])]
    assert len(set(again)) == 2


def test_a_measured_run_keeps_the_name_and_says_so(write_run: Write) -> None:
    measured = Spec(PAGING.name, 24, "block", kind="measured")
    runs = load_runs([write_run(PAGING, "a"), write_run(measured, "b")])
    assert [run.label for run in runs] == [PAGING.name, f"{PAGING.name} · measured"]


def message(folder: Path) -> str:
    with pytest.raises(InputError) as raised:
        load_runs([folder])
    text = str(raised.value)
    assert "\n" not in text
    return text


def test_no_folder_and_no_run(tmp_path: Path) -> None:
    assert "no such folder" in message(tmp_path / "nowhere")
    assert "no run.json" in message(tmp_path)


@pytest.mark.parametrize("name", ["requests", "steps", "timeline"])
def test_a_missing_or_corrupt_table_is_named(write_run: Write, name: str) -> None:
    file = (folder := write_run(PAGING)) / f"{name}.parquet"
    file.write_bytes(b"PAR1 not really")
    assert f"{file}: " in message(folder)
    assert "expected a Parquet file" in message(folder)
    file.unlink()
    assert f"{file}: no such file" in message(folder)


def test_a_missing_column_is_named(write_run: Write) -> None:
    folder = write_run(PAGING)
    table = pq.read_table(folder / "timeline.parquet")
    pq.write_table(table.drop_columns(["internal_bytes"]), folder / "timeline.parquet")
    assert "timeline.parquet: no column 'internal_bytes'" in message(folder)


def test_another_version_is_refused(write_run: Write) -> None:
    assert "schema_version is 2, expected 1" in message(write_run(PAGING, schema_version=2))


def test_a_wrong_field_is_named(write_run: Write) -> None:
    assert "run.json: device.memory_bytes: field required" in message(
        write_run(PAGING, device={"name": "x", "bandwidth_bytes_per_s": 1.0, "flops_per_s": 1.0})
    )


def test_nan_and_broken_json_are_refused(write_run: Write) -> None:
    file = (folder := write_run(PAGING)) / "run.json"
    data = json.loads(file.read_text())
    data["metrics"][0]["value"] = float("nan")
    file.write_text(json.dumps(data))
    assert "NaN is no number, expected null" in message(folder)
    file.write_text("{")
    assert "not JSON" in message(folder)
    file.write_text("[]")
    assert "schema_version is None" in message(folder)
