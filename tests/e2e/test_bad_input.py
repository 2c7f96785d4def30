"""The user's mistakes: one line that names what is wrong, exit code 2, nothing written."""

from pathlib import Path

import pytest

from tests.command import kvtwin

GOOD = "arrival_s,prompt_tokens,output_tokens\n0.0,10,5\n1.5,20,5\n"
HEADER = "arrival_s,prompt_tokens,output_tokens\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.csv").write_text(GOOD)
    return tmp_path


def refused(folder: Path, *arguments: str) -> str:
    """The one line of a refused command."""
    before = sorted(folder.rglob("*"))
    result = kvtwin(*arguments, cwd=folder)
    assert result.returncode == 2, result
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("kvtwin: error: ")
    assert sorted(folder.rglob("*")) == before
    return lines[0]


def simulate(trace: str, *more: str) -> list[str]:
    gpu = [] if "--gpu" in more else ["--gpu", "a100-40gb"]
    model = [] if "--model" in more else ["--model", "llama-2-13b"]
    return ["simulate", trace, *model, *gpu, *more, "-o", "result"]


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (None, ["trace.csv", "no such file"]),
        ("", ["trace.csv"]),
        (HEADER, ["trace.csv"]),
        ("when,in,out\n0,1,1\n", ["trace.csv", "when"]),
        (HEADER + "0.0,10,5\nnan,10,5\n", ["trace.csv", "line 3", "arrival_s"]),
        (HEADER + "0.0,10,5\n1.0,,5\n", ["trace.csv", "line 3", "prompt_tokens"]),
        (HEADER + "0.0,-10,5\n", ["trace.csv", "line 2", "prompt_tokens"]),
        (HEADER + "0.0,0,5\n", ["trace.csv", "line 2", "prompt_tokens"]),
        (HEADER + "0.0,10,2.5\n", ["trace.csv", "line 2", "output_tokens"]),
        (HEADER + "0.0,ten,5\n", ["trace.csv", "line 2", "prompt_tokens"]),
    ],
    ids=["missing", "empty", "no rows", "columns", "nan", "null", "negative", "zero prompt",
         "fraction", "word"],
)  # fmt: skip
def test_traces(folder: Path, rows: str | None, named: list[str]) -> None:
    if rows is not None:
        (folder / "trace.csv").write_text(rows)
    line = refused(folder, *simulate("trace.csv"))
    for word in named:
        assert word in line


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--policy", "pagin"], ["'pagin'", "paging"]),
        (["--policy", "paging:blok_size=16"], ["'blok_size'", "block_size"]),
        (["--policy", "paging:block_size=0"], ["block_size=0", "at least 1"]),
        (["--policy", "paging:block_size=many"], ["block_size='many'", "integer"]),
        (["--policy", "paging:block_size"], ["block_size", "option=value"]),
        (["--policy", "sliding_window:window=0"], ["window=0", "at least 1"]),
        (["--policy", "paging", "--policy", "paging"], ["paging", "twice"]),
        (["--model", "llama-2-70b"], ["llama-2-70b", "fit", "GiB"]),
        (["--model", "lama-2-13b"], ["lama-2-13b", "llama-2-13b"]),
        (["--gpu", "a100-41gb"], ["a100-41gb", "a100-40gb"]),
        (["--max-num-seqs", "0"], ["max_num_seqs=0"]),
        (["--max-model-len", "1"], ["max_model_len=1"]),
        (["--max-num-batched-tokens", "8"], ["max_num_batched_tokens=8", "max_num_seqs=256"]),
        (["--request-rate", "0"], ["0"]),
        (["--request-rate", "nan"], ["nan"]),
        (["--first", "0"], ["0"]),
        (["--horizon", "-1"], ["horizon"]),
        (["--kv-cache-memory", "12"], ["--kv-cache-memory", "GiB"]),
        (["--kv-cache-memory", "1kB"], ["3355443200", "1000"]),
        (["--polcy", "paging"], ["--polcy", "--policy"]),
        (["--policy", "top_k"], ["top_k", "paging+top_k"]),
        (["--policy", "paging+int8", "--kv-cache-dtype", "fp8"], ["int8", "--kv-cache-dtype"]),
        (["--cost", "nowhere"], ["--cost nowhere", "kvtwin calibrate"]),
        (["--samples", "0"], ["samples is 0"]),
        (
            [
                "--model",
                "llama-3.1-8b",
                "--cost",
                "table",
                "--profile",
                "rtx-4090-llama-3.1-8b-tp1",
            ],
            ["measured on rtx-4090", "a100-40gb"],
        ),
        (["--arrivals", "foo", "--request-rate", "2"], ["--arrivals 'foo'", "poisson"]),
        (["--watts", "a100-40gb=400"], ["--watts a100-40gb=400", "such as h100=700W"]),
        (["--price", "a100-40gb=2"], ["--price a100-40gb=2", "such as h100=2.50/h"]),
        (
            ["--policy", "paging,paging+prefix"],
            ["no policy 'paging,paging'", "--policy once for each"],
        ),
        (["--policy", "paging", "--policy", "paging"], ["--policy paging: given twice"]),
        (
            ["--policy", "paging", "--policy", "paging:block_size=16"],
            ["--policy paging:block_size=16: is the same as --policy paging, expected"],
        ),
        (
            ["--engine", "vllm-0.32", "--policy", "paging", "--policy", "paging+prefix"],
            ["--policy paging+prefix: is the same as --policy paging under --engine vllm-0.32"],
        ),
        (["--model", "mixtral-8x7b"], ["no such model", "of any other give the config.json"]),
    ],
)
def test_options(folder: Path, options: list[str], named: list[str]) -> None:
    line = refused(folder, *simulate("good.csv", *options))
    for word in named:
        assert word in line


def test_stamps_out_of_order_are_sorted_and_said_so(folder: Path) -> None:
    (folder / "late.csv").write_text(HEADER + "3.0,10,5\n1.0,20,6\n2.0,30,7\n")
    result = kvtwin("traces", "describe", "late.csv", cwd=folder)
    assert result.returncode == 0
    assert "sorted by arrival: 2 rows were out of order" in result.stdout
    assert kvtwin(*simulate("late.csv", "--no-report"), cwd=folder).returncode == 0


def test_a_folder_of_other_things_is_not_replaced(folder: Path) -> None:
    (folder / "result").mkdir()
    (folder / "result" / "thesis.txt").write_text("years of work")
    line = refused(folder, *simulate("good.csv"))
    assert "result" in line
    assert (folder / "result" / "thesis.txt").read_text() == "years of work"


def test_an_all_refused_trace_still_gives_a_report(folder: Path) -> None:
    (folder / "long.csv").write_text(HEADER + "0.0,9000,5\n1.0,9000,5\n")
    result = kvtwin(*simulate("long.csv", "--policy", "paging"), cwd=folder)
    assert result.returncode == 0, result.stderr
    assert (folder / "result" / "report.html").stat().st_size > 10_000
