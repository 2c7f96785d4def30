"""`kvtwin sweep` and `kvtwin search` as people call them."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.command import kvtwin as command

SYSTEM = ["azure-2023-conv", "--model", "llama-2-7b", "--gpu", "a100-40gb", "--first", "20"]


kvtwin = partial(command, cwd=Path())
"""Every file is named whole."""


def test_a_second_try_adds_what_is_new(tmp_path: Path) -> None:
    given = ["sweep", *SYSTEM, "--jobs", "1", "--json", "-o", str(tmp_path / "out")]
    one = json.loads(kvtwin(*given, "--set", "max-num-seqs=8,16").stdout)
    assert (one["runs"], one["run_before"], one["failed"]) == (2, 0, 0)
    done = kvtwin(*given, "--set", "max-num-seqs=8,16,4000")
    two = json.loads(done.stdout)
    assert (two["runs"], two["run_before"], two["failed"]) == (3, 2, 1)
    assert two["in_no_row"] == 0
    assert {one.name for one in (tmp_path / "out").iterdir()} == {
        "runs.jsonl", "sweep.csv", "sweep.parquet", "frontier.html"
    }  # fmt: skip


def test_rows_that_another_sweep_replaces_are_counted(tmp_path: Path) -> None:
    """The first has two runs; the second has one of its own, and the table is its alone."""
    given = ["sweep", *SYSTEM, "--jobs", "1", "-o", str(tmp_path / "out"), "--max-num-seqs"]
    assert "other commands" not in kvtwin(*given, "8,16").stdout
    said = kvtwin(*given, "32").stdout
    assert said.startswith("1 run, 0 of them run before")
    assert "2 runs of other commands are kept in" in said


def test_a_search_and_its_record(tmp_path: Path) -> None:
    level = ["--slo", "ttft_p90=1s", "--max-num-seqs", "2,64"]
    loads = ["--over", "request_rate=1:8", "--resolution", "1"]
    given = ["search", *SYSTEM, *level, *loads, "-o", str(tmp_path / "out")]
    said = kvtwin(*given).stdout
    assert "requests/s on 1 × a100-40gb meets ttft_p90=1s" in said
    assert "vllm serve meta-llama/Llama-2-7b-hf" in said
    record = json.loads(kvtwin(*given, "--json").stdout)
    assert record["best"]["options"] == {"max_num_seqs": "64"}
    assert record["best"]["vllm"] in said
    page = (tmp_path / "out" / "frontier.html").read_text()
    assert "What binds: " in page


def test_a_search_counts_its_own_runs_and_those_of_others(tmp_path: Path) -> None:
    """Two of a sweep are none of its rows; of a second search all that the first made are."""
    kept = ["-o", str(tmp_path / "out"), "--slo", "ttft_p90=60s"]
    kvtwin("sweep", *SYSTEM, *kept, "--jobs", "1", "--max-num-seqs", "8,16")
    given = ["search", *SYSTEM, *kept, "--over", "request_rate=1:2", "--resolution", "1"]
    one = kvtwin(*given).stdout
    assert "run before" not in one
    assert "\n2 runs of other commands are kept in" in one
    two = json.loads(kvtwin(*given, "--json").stdout)
    assert (two["runs"], two["run_before"], two["in_no_row"]) == (2, 2, 2)
    three = kvtwin(*given[:-3], "request_rate=1:1", *given[-2:]).stdout
    assert "1 run, 1 of them whole" in three
    assert "; 1 of them run before, each a row of" in three
    assert "\n3 runs of other commands are kept in" in three


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sweep", *SYSTEM, "--set", "windw=1"], "--set windw: no such option"),
        (["sweep", *SYSTEM, "--max-num-seqs", "many"], "expected a whole number"),
        (["sweep", *SYSTEM, "--on", "moon"], "--on moon: expected here, ray or ray://"),
        (["sweep", *SYSTEM, "--jobs", "0"], "--jobs 0: expected at least 1"),
        (["search", *SYSTEM], "--slo: missing"),
        (["search", "azure-2023-conv", "--gpu", "h100"], "--model: missing"),
    ],
)
def test_mistakes_take_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    done = kvtwin(*words, "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
