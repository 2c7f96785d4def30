"""The commands as a user runs them, on a model so small that steps take a millisecond."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.gpu import program as gpu
from benchmarks.gpu.results import ARCHIVE, read_archive
from executor.device.machine import Machine
from executor.validation.judge import judge
from reports.validation import print_rows
from sim.cost.steps.table import read_table
from tests.command import kvtwin as command_line
from tests.executor.brief import brief_measuring
from tests.executor.kernels.interpreter import quick
from workloads.columns import read_columns

CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "intermediate_size": 64,
    "vocab_size": 64,
    "max_position_embeddings": 512,
    "dtype": "float32",
}
SMALL = "--max-num-seqs 4 --max-num-batched-tokens 64 --kv-cache-memory 1MiB"
POLICIES = "--policy paging:block_size=16 --policy sliding_window:window=60,sinks=4"


def kvtwin(command: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return command_line(*command.split(), cwd=cwd)


@pytest.fixture(scope="module", autouse=True)
def briefly() -> Iterator[None]:
    """Of times so short nothing is promised."""
    with brief_measuring():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration, a trace, and a validation of two policies with its cost table."""
    path = tmp_path_factory.mktemp("executor")
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "opt.json").write_text(json.dumps({**CONFIG, "model_type": "opt"}))
    rows = [f"{i * 0.004:.3f},{20 + 17 * i % 90},{5 + 7 * i % 20}" for i in range(12)]
    (path / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows))
    done = kvtwin(f"calibrate --model config.json {POLICIES} {SMALL} -o cost.json", path)
    assert done.returncode == 0, done.stderr
    done = kvtwin(
        f"validate trace.csv --model config.json {POLICIES} {SMALL} --cost cost.json "
        "--repeats 1 -o out",
        path,
    )
    assert done.returncode in (0, 1), done.stderr  # of times so short nothing is promised
    return path


def test_memory_is_exact_to_the_byte(folder: Path) -> None:
    content = json.loads((folder / "out/validation.json").read_text())
    exact = [row for row in content["rows"] if row["tolerance_percent"] == 0]
    assert len(exact) == 2 * 3
    assert all(row["passed"] and row["predicted"] == row["measured"] for row in exact)


def test_simulated_and_measured_runs_stand_side_by_side(folder: Path) -> None:
    runs = [json.loads(file.read_text()) for file in sorted(folder.glob("out/*/run.json"))]
    assert sorted(run["kind"] for run in runs) == ["measured"] * 2 + ["simulated"] * 2
    assert all("torch" in run["versions"] for run in runs if run["kind"] == "measured")
    page = (folder / "out/report.html").read_text()
    assert "Predicted against measured" in page
    assert "paging:block_size=16 · measured" in page
    again = kvtwin("report out -o again.html", folder)
    assert again.returncode == 0, again.stderr
    assert "Predicted against measured" in (folder / "again.html").read_text()


def test_rounds_measure_their_own_costs(folder: Path) -> None:
    done = kvtwin(
        f"validate trace.csv --model config.json --policy paging:block_size=16 {SMALL} "
        "--kv-cache-dtype int8_fp16 --repeats 2 --json -o paired",
        folder,
    )
    assert done.returncode in (0, 1), done.stderr
    content = json.loads(done.stdout)
    rows = {row["name"]: row for row in content["rows"]}
    assert {row["policy"] for row in rows.values()} == {"paging:block_size=16 int8_fp16"}
    assert rows["kv_allocated_bytes"]["passed"]
    assert rows["lockstep_all_s"]["error_percent"] is not None
    run = json.loads(
        (folder / "paired/paging-block_size-16-int8_fp16-simulated/run.json").read_text()
    )
    assert run["cost"]["name"] == "calibrated"


@pytest.mark.parametrize(
    "scheduling",
    [
        "--preemption swap --samples 2 --kv-cache-memory 48KiB",
        "--batching static --samples 2 --kv-cache-memory 1MiB",
    ],
)
def test_other_scheduling_is_executed(folder: Path, scheduling: str) -> None:
    """Plans, ids and bytes are checked step by step; 48 KiB hold 12 blocks, a request takes 9."""
    command = (
        "validate trace.csv --model config.json --policy paging:block_size=16 --cost cost.json "
        f"--max-num-seqs 4 --max-num-batched-tokens 64 --repeats 1 {scheduling} -o scheduled"
    )
    done = kvtwin(command, folder)
    assert done.returncode in (0, 1), done.stderr  # of times so short nothing is promised
    rows = json.loads((folder / "scheduled/validation.json").read_text())["rows"]
    exact = [row for row in rows if row["tolerance_percent"] == 0]
    assert len(exact) == 3
    assert all(row["passed"] and row["predicted"] == row["measured"] for row in exact)
    runs = [json.loads(file.read_text()) for file in folder.glob("scheduled/*/run.json")]
    assert len(runs) == 2
    for run in runs:
        metrics = {row["name"]: row["value"] for row in run["metrics"]}
        assert metrics["finished"] == 24
        assert (metrics["swapped_bytes"] > 0) == ("swap" in scheduling)


def test_memory_of_every_kind_is_exact(folder: Path) -> None:
    """Pages that the system counts, heads that choose what they keep, layers with windows."""
    layers = ["sliding_attention", "full_attention"]
    windows = {**CONFIG, "sliding_window": 24, "layer_types": layers}
    (folder / "windows.json").write_text(json.dumps(windows))
    policies = ("virtual", "paging:block_size=16,layers=capped", "preallocation+top_k:mode=evict")
    for policy in policies:
        done = kvtwin(
            f"validate trace.csv --model windows.json --policy {policy} --first 5 --repeats 1 "
            "--max-num-seqs 2 --max-num-batched-tokens 32 --max-model-len 128 "
            "--kv-cache-memory 2MiB --json -o kinds",
            folder,
        )
        assert done.returncode in (0, 1), done.stderr
        rows = json.loads(done.stdout)["rows"]
        exact = [row for row in rows if row["tolerance_percent"] == 0]
        assert len(exact) == 3
        assert all(row["passed"] and row["predicted"] == row["measured"] > 0 for row in exact)


def test_a_validation_can_be_done_again_in_its_place(folder: Path) -> None:
    command = (
        f"validate trace.csv --model config.json --policy paging:block_size=16 {SMALL} "
        "--cost cost.json --first 4 --repeats 1 -o again"
    )
    for _ in range(2):
        done = kvtwin(command, folder)
        assert done.returncode in (0, 1), done.stderr


def test_steps_beyond_the_table_are_told(folder: Path) -> None:
    """Prompts of up to 107 tokens and answers of up to 24, by times of contexts of up to 32."""
    few = "--policy paging:block_size=16 --max-num-seqs 1 --max-num-batched-tokens 32"
    done = kvtwin(
        f"calibrate --model config.json {few} --max-model-len 32 --kv-cache-memory 64KiB "
        "-o few.json",
        folder,
    )
    assert done.returncode == 0, done.stderr
    command = (
        "validate trace.csv --model config.json --policy paging:block_size=16 --cost few.json "
        f"--first 4 --repeats 1 {SMALL} -o beyond"
    )
    done = kvtwin(command, folder)
    assert done.returncode in (0, 1), done.stderr
    assert re.search(
        r"^paging:block_size=16: warning: [\d.]+ % of steps lie beyond what was measured$",
        done.stdout,
        re.MULTILINE,
    )
    done = kvtwin(f"{command} --json", folder)
    json.loads(done.stdout)
    assert "lie beyond what was measured" in done.stderr


def test_a_table_of_other_windows_is_refused(folder: Path) -> None:
    layers = ["sliding_attention", "full_attention"]
    content = {**CONFIG, "sliding_window": 48, "layer_types": layers}
    (folder / "other.json").write_text(json.dumps(content))
    done = kvtwin(
        "validate trace.csv --model other.json --policy paging:block_size=16 --cost cost.json "
        f"--repeats 1 {SMALL} -o other",
        folder,
    )
    assert done.returncode == 2
    assert "the cost table was measured with config" in done.stderr
    assert "not with other" in done.stderr
    assert "whose layers have other windows\n" in done.stderr
    assert not (folder / "other").exists()


def test_steps_say_what_was_host_and_what_was_device(folder: Path) -> None:
    plans = (folder / "out/paging-block_size-16-plans.jsonl").read_text().splitlines()
    steps = sum(json.loads(line)["steps"] for line in plans)
    head, *rows = (folder / "out/paging-block_size-16-times.csv").read_text().splitlines()
    assert head == "kind,tokens,total_us,host_us,device_us"
    assert len(rows) == steps
    for row in rows:
        total, host, device = map(float, row.split(",")[2:])
        assert 0 < host < total
        assert host + device == pytest.approx(total, abs=0.01)


def test_plan_logs_are_written(folder: Path) -> None:
    lines = (folder / "out/paging-block_size-16-plans.jsonl").read_text().splitlines()
    log = [json.loads(line) for line in lines]
    rows = [line.split(",") for line in (folder / "trace.csv").read_text().split()[1:]]
    assert sum(one["plan"]["prefill_tokens"] for one in log) == sum(int(row[1]) for row in rows)
    steps = 0
    for one in log:
        assert one["plan"]["step"] == steps
        steps += one["steps"]


def test_the_simulator_uses_the_table(folder: Path) -> None:
    done = kvtwin(
        "simulate trace.csv --model config.json --cost cost.json --policy paging:block_size=16 "
        f"{SMALL} --no-report -o sim",
        folder,
    )
    assert done.returncode == 0, done.stderr
    run = json.loads((folder / "sim/paging-block_size-16/run.json").read_text())
    assert run["cost"]["name"] == "calibrated"
    assert run["device"]["name"] == read_table(folder / "cost.json").hardware.name


def test_policies_that_were_not_measured_are_refused(folder: Path) -> None:
    done = kvtwin(
        f"simulate trace.csv --model config.json --cost cost.json --policy preallocation {SMALL}",
        folder,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "the cost table has no such policy" in done.stderr


def test_mistakes_take_one_line(folder: Path) -> None:
    for command, message in (
        ("validate trace.csv --model config.json --repeats 0 -o x", "--repeats 0"),
        ("calibrate --model config.json -o missing/x.json", "no such folder missing"),
        ("calibrate --model opt.json -o x.json", "the executor runs Llama-shaped models"),
        (
            "calibrate --model config.json --max-model-len 513 -o x.json",
            "--max-model-len 513: config has rotations for 512 positions; expected at most",
        ),
        (
            "validate trace.csv --model config.json --max-model-len 100000 -o x",
            "--max-model-len 100,000: config has rotations for 512 positions",
        ),
        (  # one block of 16 tokens: K and V of 1 head of 16 x 4 B in 2 layers are 256 B a token
            "validate trace.csv --model config.json --policy paging --kv-cache-memory 4KiB -o x",
            "--policy paging: none of 12 requests fits, so nothing would run or be judged",
        ),
        ("validate trace.csv --model deepseek-v3 -o x", "deepseek-v3 has layers of other"),
        ("validate trace.csv --model gpt-oss-20b -o x", "gpt-oss-20b has experts: the executor"),
        ("simulate trace.csv --model config.json", "--gpu: missing"),
        (
            "validate trace.csv --model config.json --policy paging --policy virtual+int8 -o x",
            "--policy virtual+int8: virtual with int8, int4 or top_k:mode=evict is simulated and "
            "not executed: its plan has no tensors",
        ),
        ("simulate trace.csv --model config.json --cost trace.csv", "--cost trace.csv"),
    ):
        done = kvtwin(command, folder)
        assert done.returncode == 2, (command, done.stderr)
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_without_a_value_nothing_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """Answers of one token have no time between tokens."""
    row = asdict(judge("p", "tpot_ms_mean", "free: TPOT", "ms", [(None, None)], 10.0))
    print_rows({"schema_version": 1, "passed": True, "repeats": 1, "rows": [row]})
    said = capsys.readouterr().out
    assert "not judged" in said
    assert "passed" not in said.replace("validation passed", "")


def test_a_model_larger_than_the_machine_takes_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No option of the command makes the machine larger, so none is named."""
    monkeypatch.setattr(Machine, "identity", lambda _: ("small", 2**14))
    done = kvtwin("validate trace.csv --model config.json -o large", folder)
    assert done.returncode == 2
    assert "--model config.json: its weights take" in done.stderr
    assert "expected a smaller one" in done.stderr
    assert "--gpu" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_torch_it_says_what_to_install(folder: Path) -> None:
    hide = "import importlib.util as u; f = u.find_spec\nu.find_spec = lambda n, p=None: None if n == 'torch' else f(n, p)\n"  # noqa: E501
    (folder / "hidden").mkdir()
    (folder / "hidden/sitecustomize.py").write_text(hide)
    path = os.pathsep.join([str(folder / "hidden"), str(Path.cwd())])
    command = "-m sim.cli calibrate --model config.json -o x.json"
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'kvtwin[executor]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor_checks_what_runs_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with nullcontext() if torch.cuda.is_available() else quick():
        done = kvtwin("doctor", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("attention in torch: ") == 8
    assert "FAILS" not in done.stdout


def test_gpu_script_rehearses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(
        gpu.REHEARSAL,
        policies=("preallocation",),
        requests=2,
        max_num_batched_tokens=64,
        max_model_len=512,
        max_num_seqs=2,
        tests=("--version",),
        step_batches=(1,),
    )
    monkeypatch.setattr(gpu, "REHEARSAL", small)
    assert gpu.main(["--rehearse", "-o", str(tmp_path)]) == 0
    found = read_archive(tmp_path / ARCHIVE)
    phases = {"tests", "ceilings", "checks", "attention", "steps"}
    assert set(found) == {*phases, "validation-llama-small-preallocation"}
    assert {file.stem for file in tmp_path.glob("*.json")} == set(found)
    assert not [name for name, one in found.items() if "error" in one]


def test_gpu_script_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert gpu.main([]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_sessions_and_users_run_on_the_device(folder: Path) -> None:
    """The torch path on this CPU: every turn is asked after its answer and its think time, on the
    clock that the device's own steps move; users take whole sessions, one at a time."""
    lines = [
        {
            "session_id": f"s{session}", "timestamp": 0, "delay": 0 if turn == 0 else 40,
            "input_length": 20 + 30 * turn, "output_length": 6 + session,
        }
        for turn in range(3)
        for session in range(4)
    ]  # fmt: skip
    (folder / "sessions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    base = f"validate sessions.jsonl --model config.json --policy paging:block_size=16 {SMALL} "
    for load, name in (("", "free"), ("--users 1 --think-time 20ms", "users")):
        done = kvtwin(f"{base} {load} --cost cost.json --repeats 1 -o {name}", folder)
        assert done.returncode in (0, 1), done.stderr
        runs = {
            json.loads((file.parent / "run.json").read_text())["kind"]: read_columns(
                file, {"arrival_s": "time", "finish_s": "time"}, "", {}
            )[0]
            for file in (folder / name).glob("*/requests.parquet")
        }
        assert set(runs) == {"simulated", "measured"}
        for table in runs.values():
            asked, answered = table["arrival_s"].reshape(3, 4), table["finish_s"].reshape(3, 4)
            assert asked[1:] - answered[:-1] == pytest.approx(np.full((2, 4), 0.04), abs=1e-9)
            if name == "users":
                order = np.argsort(asked[0])
                between = asked[0][order][1:] - answered[2][order][:-1]
                assert between == pytest.approx(np.full(3, 0.02), abs=1e-9)
