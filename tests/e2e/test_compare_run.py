"""A new GPU and a new model as a user brings them: CSVs and a config.json, no code."""

import json
from pathlib import Path

import numpy as np
import pytest

from sim.cost.kernels.llmservingsim import parse_all_reduce, read_folder
from sim.cost.kernels.profile import scaled
from sim.run.simulation import simulate
from tests.command import kvtwin
from tests.made_up import write_as_measured, write_model, write_profile_folder
from workloads.errors import InputError
from workloads.schema import Provenance, Trace

ATTENTION = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"
GPU = "custom:memory=2GiB,bandwidth=1TB/s,flops=100TFLOP/s"


def busy_trace() -> Trace:
    """400 requests at 200 a second, of all sizes up to 600 + 60 tokens."""
    draw = np.random.default_rng(7)
    arrival = np.cumsum(draw.exponential(1 / 200, 400))
    prompt, output = draw.integers(20, 600, 400), draw.integers(2, 60, 400)
    return Trace("busy", arrival - arrival[0], prompt, output, Provenance("drawn", 400))


def test_from_a_folder_of_csvs_to_a_comparison(tmp_path: Path) -> None:
    """docs/profiles.md, word for word, where the measured engine obeys the profile exactly."""
    config = write_model(tmp_path / "my-model")
    write_profile_folder(tmp_path / "my-gpu")
    write_profile_folder(tmp_path / "slow-gpu", slower=1.05)
    truth = read_folder(tmp_path / "my-gpu", name="truth", model=str(config))
    run = simulate(
        busy_trace(),
        model=str(config),
        gpu=GPU,
        engine="vllm-0.19",
        profile=truth,
    )
    write_as_measured(run, tmp_path / "my-run", {"engine_kwargs": {"max_model_len": 4096}})
    for name in ("my-gpu", "slow-gpu"):
        made = kvtwin(
            *("profiles", "convert", name, "-o", f"{name}.parquet"),
            *("--model", "my-model/config.json"),
            cwd=tmp_path,
        )
        assert made.returncode == 0, made.stderr
    compare = ["compare-run", "my-run", "--gpu", GPU, "--model", "my-model/config.json"]
    compare += ["--engine", "vllm-0.19", "--json"]
    good = kvtwin(*compare, "--profile", "my-gpu.parquet", "-o", "out/my-run", cwd=tmp_path)
    assert good.returncode == 0, good.stdout + good.stderr
    found = json.loads(good.stdout)
    assert found["cost"] == "table"
    assert all(abs(m["error_pct"] or 0) < 0.01 for m in found["metrics"] if m["tolerance_pct"])
    assert (tmp_path / "out/my-run/report.html").exists()
    written = json.loads((tmp_path / "out/my-run/measured/run.json").read_text())
    assert written["kind"] == "measured"
    for kind in ("measured", "predicted"):  # the page shows the terminal's numbers
        shown = json.loads((tmp_path / f"out/my-run/{kind}/run.json").read_text())["metrics"]
        values = {metric["name"]: metric["value"] for metric in shown}
        assert {m["name"]: m[kind] for m in found["metrics"]}.items() <= values.items()
    slow = kvtwin(*compare, "--profile", "slow-gpu.parquet", cwd=tmp_path)
    assert slow.returncode == 1, slow.stderr
    tpot = next(m for m in json.loads(slow.stdout)["metrics"] if m["name"] == "tpot_ms_mean")
    assert tpot["error_pct"] > 3


def test_a_shipped_run_misses_and_says_so(tmp_path: Path) -> None:
    """Lengths alone don't reach one per cent, and the exit code tells."""
    result = kvtwin("compare-run", "rtx-4090-llama-3.1-8b", "--prefixes", "none", cwd=tmp_path)
    assert result.returncode == 1
    assert "MISS" in result.stdout
    assert "lengths only" in result.stdout


def test_an_option_against_the_record_is_told_in_every_form(tmp_path: Path) -> None:
    command = ["compare-run", "vllm-cpu-llama-103m", "--max-num-seqs", "8"]
    words = "max_num_seqs 8 (meta.json: 16)"
    text = kvtwin(*command, cwd=tmp_path).stdout
    assert f"overrides the record: {words}" in text
    assert f"The record is overridden ({words}): compare without that first." in text
    assert "host's work" not in text
    found = json.loads(kvtwin(*command, "--json", cwd=tmp_path).stdout)
    assert found["overrides"] == [words]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("attention.csv", "a,b\n1,2\n", "no column 'prefill_chunk'"),
        (
            "dense.csv",
            "layer,tokens,time_us\nqkv_proj,x,1\n",
            "dense.csv: line 2: tokens is 'x', expected a whole number",
        ),
        ("dense.csv", "layer,tokens,time_us\nconv,1,1\n", "layer 'conv', expected one of"),
        (
            "dense.csv",
            "layer,tokens,time_us\nqkv_proj,1,1\no_proj,1,1\nqkv_proj,+1,2\n",
            "dense.csv: line 4: qkv_proj,1 is there already, in line 2; expected each size once",
        ),
        (
            "dense.csv",
            "layer,tokens,time_us\nqkv_proj,1,1\no_proj,1,1\ngate_up_proj,1,1\n",
            "dense.csv: has no times of down_proj",
        ),
        (
            "attention.csv",
            f"{ATTENTION}\n0,0,1,16,1\n16,0,1,16,2\n",
            "tp1: has no attention times of chunks without decodes",
        ),
        (
            "attention.csv",
            f"{ATTENTION}\n16,0,0,0,1\n16,0,1,16,2\n",
            "tp1: has no attention times of decodes without a chunk",
        ),
        (
            "attention.csv",
            f"{ATTENTION}\n0,0,1,16,1\n16,0,0,0,2\n0,0,1,16,3\n",
            "attention.csv: line 4: 0,0,1,16 is there already, in line 2",
        ),
        ("per_sequence.csv", "layer,sequences,time_us\n", "no times of lm_head"),
        ("per_sequence.csv", "layer,sequences,time_us\nlm_head,1,1\n", "no times of sampler"),
    ],
)
def test_a_broken_table_is_one_line(tmp_path: Path, file: str, text: str, message: str) -> None:
    config = write_model(tmp_path / "model")
    folder = write_profile_folder(tmp_path / "gpu")
    (folder / "tp1" / file).write_text(text)
    with pytest.raises(InputError, match=message):
        read_folder(folder, name="x", model=str(config))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpu", "h100"], "--gpu h100: rtx-4090-llama-3.1-8b was measured on rtx-4090"),
        (["--tolerance-mean", "-1"], "expected at least 0 per cent"),
    ],
)
def test_what_contradicts_the_run_is_one_line(
    tmp_path: Path, options: list[str], message: str
) -> None:
    result = kvtwin("compare-run", "rtx-4090-llama-3.1-8b", *options, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.splitlines() == [result.stderr.strip()]
    assert message in result.stderr


def test_an_all_reduce_in_words() -> None:
    numbers, source = parse_all_reduce("small=11us+11.5GB/s,switch=640KiB,large=45us+15.9GB/s")
    assert numbers == {
        "small_latency": 11e-6,
        "small_bandwidth": 11.5e9,
        "switch": 655_360,
        "large_latency": 45e-6,
        "large_bandwidth": 15.9e9,
    }
    assert source.startswith("--all-reduce")
    with pytest.raises(InputError, match="expected large=LATENCY"):
        parse_all_reduce("small=1us+1GB/s")


def test_an_all_reduce_as_a_table_and_kernels_that_are_faster_in_an_engine(tmp_path: Path) -> None:
    config = write_model(tmp_path / "model")
    folder = write_profile_folder(tmp_path / "gpu")
    sums = tmp_path / "sums.csv"
    sums.write_text("bytes,time_us\n1024,5\n1048576,100.5\n")
    profile = read_folder(
        folder,
        name="x",
        model=str(config),
        all_reduce=f"{sums},source=nccl-tests",
        kernel_time="0.5,source=my run",
    )
    assert profile.rows["all_reduce"] == [(0, 0, 1024, 0, 5.0), (0, 0, 1_048_576, 0, 100.5)]
    assert profile.meta["all_reduce_source"] == "nccl-tests"
    assert profile.meta["kernel_time"] == (0.5, "my run")
    half = scaled(profile.rows, 0.5)
    assert half["qkv_proj"][0][4] == profile.rows["qkv_proj"][0][4] / 2
    assert half["all_reduce"] == profile.rows["all_reduce"]
    sums.write_text("bytes,time_us\n1024,fast\n")
    for options, message in (
        ({"all_reduce": str(sums)}, "line 2: time_us is 'fast'"),
        ({"kernel_time": "quick"}, "--kernel-time quick: expected a number above 0"),
        ({"kernel_time": "0"}, "--kernel-time 0: expected a number above 0"),
    ):
        with pytest.raises(InputError, match=message):
            read_folder(folder, name="x", model=str(config), **options)
