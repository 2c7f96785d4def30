"""The `traces` command, in process."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from reports.traces.cli import app
from workloads import InputError, read_trace

GENERATE = ("generate", "--requests", "2", "--request-rate", "1", "-o")


def run(*tokens: str) -> None:
    assert app(tokens, result_action="return_value", exit_on_error=False) is None


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    run("list")
    assert "azure-2023-conv" in capsys.readouterr().out
    run("list", "--json")
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed][:2] == ["azure-2023-conv", "azure-2023-code"]
    assert all(entry["licence"] and entry["description"] for entry in listed)


def test_describe(capsys: pytest.CaptureFixture[str]) -> None:
    run("describe", "mooncake-synthetic")
    out = capsys.readouterr().out
    for shown in ("1,022.0", "3.9069", "1.011", "38,611.2", "63.96%", "43,924", "linearly"):
        assert shown in out


def test_describe_names_what_was_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "[bold]t.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n3,5,1\n0,5,1\n0,9,0\n")
    run("describe", str(path))
    out = capsys.readouterr().out
    assert re.search(r"dropped: zero output tokens +│? *1\b", out)
    assert "sorted by arrival: 1 rows were out of order" in out
    assert "[bold]t" in out


def test_describe_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,5,1\n0,9,0\n")
    run("describe", str(path), "--json")
    facts = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert facts["requests"] == 1
    assert facts["span_s"] == 0
    assert facts["request_rate"] is None
    assert facts["inter_arrival_cv"] is None
    assert facts["prompt_tokens"]["total"] == 5
    assert type(facts["prompt_tokens"]["max"]) is int
    assert facts["provenance"]["dropped"] == {"zero output tokens": 1}
    assert facts["provenance"]["rows_read"] == 2


def test_describe_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    run("describe", "arxiv-lengths", "--json")
    facts = json.loads(capsys.readouterr().out)
    assert (facts["requests"], facts["span_s"], facts["prefix"]) == (28_257, None, None)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_generate_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    common = (
        "generate",
        "--requests",
        "50",
        "--request-rate",
        "5",
        "--lengths",
        "sharegpt-lengths",
    )
    paths = [tmp_path / f"{name}{suffix}" for name in "abc"]
    for path, seed in zip(paths, ("1", "1", "2"), strict=True):
        run(*common, "--seed", seed, "-o", str(path))
    one, two, other = (path.read_bytes() for path in paths)
    assert one == two != other
    assert len(read_trace(paths[0])) == 50


def test_generate_all_at_once_needs_no_rate(tmp_path: Path) -> None:
    out = str(tmp_path / "t.csv")
    run("generate", "--requests", "2", "--arrivals", "all-at-once", "--prompt", "7", "-o", out)
    trace = read_trace(out)
    assert trace.arrival_s.tolist() == [0, 0]
    assert trace.prompt_tokens.tolist() == [7, 7]


def test_generate_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.csv"
    rate = ("--request-rate", "0.5", "--arrivals", "constant", "-o", str(out))
    run("generate", "--requests", "1001", *rate)
    assert capsys.readouterr().out == f"{out}: 1,001 requests over 2,000.00 s\n"
    run("generate", "--requests", "1", *rate, "--json")
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"trace": str(out), "requests": 1, "span_s": 0.0}


def test_more_requests_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("workloads.synthetic.generate", exhausted)
    with pytest.raises(InputError, match="--requests 2: more than this machine's memory holds"):
        run(*GENERATE, str(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (("describe", "nothing"), "nothing: no such file"),
        (("generate", "--requests", "2", "-o", "t.csv"), "poisson needs --request-rate"),
        (
            (*GENERATE, "t.csv", "--prompt", "5", "--lengths", "arxiv-lengths"),
            "--lengths draws both lengths",
        ),
        ((*GENERATE, "t.txt"), "unknown suffix"),
        ((*GENERATE, f"{'t' * 300}.csv"), "cannot be written: File name too long"),
        (
            ("generate", "--requests", "100000000000", "--request-rate", "1", "-o", "t.csv"),
            "requests is 100,000,000,000, expected at most 1,000,000,000",
        ),
        (
            ("generate", "--requests", "1.5", "-o", "t.csv"),
            r"--requests 1\.5: expected a whole number",
        ),
        ((*GENERATE, "t.csv", "--seed=2.0"), r"--seed 2\.0: expected a whole number"),
        (("describe", "x.csv", "--block-tokens", "1.5"), "--block-tokens 1.5: expected a whole"),
    ],
)
def test_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: tuple[str, ...], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=expected):
        run(*tokens)
    assert list(tmp_path.iterdir()) == []


def test_heavy_packages_load_late_or_never() -> None:
    script = (
        "import sys, workloads, workloads.cli\n"
        "assert not {'pandas', 'pyarrow', 'rich.table'} & set(sys.modules)\n"
        "for name in ('azure-2023-code', 'mooncake-synthetic', 'burstgpt-sample'):\n"
        "    workloads.read_trace(name)\n"
        "workloads.read_lengths('arxiv-lengths')\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
