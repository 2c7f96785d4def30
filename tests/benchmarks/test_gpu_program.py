"""The GPU program without a GPU: every phase under a pretended one, nothing lost if killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gpu.plan import GPU
from benchmarks.gpu.results import ARCHIVE, Results, read_archive

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
    "vocab_size": 64,
    "max_position_embeddings": 512,
    "dtype": "float32",
    "sliding_window": 48,
    "layer_types": ["sliding_attention", "full_attention"],
}
POLICIES = (
    "paging:block_size=16",
    "paging:block_size=1",
    "paging:block_size=16+prefix",
    "preallocation",
    "preallocation:reserve=pow2",
    "preallocation:reserve=oracle,allocator=buddy",
    "growing:start=16",
    "chunked:chunk_tokens=64",
    "sliding_window:window=60,sinks=4",
    "paging:block_size=16+sliding_window:window=60,sinks=4",
    "paging:block_size=16+top_k:k=64,page=16",
    "paging:block_size=16+int8",
    "paging:block_size=16+int8:scale=fp16",
    "paging:block_size=16+fp8",
    "paging:block_size=16+int4:group=4",
    "paging:block_size=16,layers=unified",
    "paging:block_size=16,layers=capped",
    "paging:block_size=16,layers=capped+prefix",
    "paging:block_size=16+top_k:k=40,mode=evict",
    "preallocation+top_k:k=40,mode=evict",
)


def bare_environment() -> dict[str, str]:
    """Kernels are compiled, not interpreted, and any tree's packages will do."""
    kept = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    return {**kept, "PYTHONPATH": str(Path.cwd())}


def pretended(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.gpu.pretend", *arguments]
    done = subprocess.run(
        command, env=bare_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_policy_goes_through_every_phase(tmp_path: Path) -> None:
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(CONFIG))
    said = pretended("flow", str(config), str(tmp_path / "out"), *POLICIES)
    verdicts = [line for line in said.splitlines() if line.startswith(("ok", "FAIL"))]
    assert verdicts == [f"ok {policy}" for policy in POLICIES], said


def test_few_kernels_and_none_compiled_under_the_clock() -> None:
    found = json.loads(pretended("variants").splitlines()[-1])
    assert sum(found["kernels"].values()) <= 40
    assert len(found["late"]) == len(GPU.models) * len(GPU.policies)
    assert not any(found["late"].values())


WRITER = """
import sys, time
from pathlib import Path
from benchmarks.gpu.results import Results
results = Results(Path(sys.argv[1]))
for i in range(10_000):
    results.write(f"policy-{i}", {"rows": list(range(500))})
"""


@pytest.mark.parametrize("after_s", [0.02, 0.1, 0.2, 0.35, 0.5])
def test_what_was_written_survives_a_kill(after_s: float, tmp_path: Path) -> None:
    """Everything that was announced is in the archive, whenever the kill comes."""
    running = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        env=bare_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    announced = [running.stdout.readline()]
    time.sleep(after_s)
    running.send_signal(signal.SIGKILL)
    announced += running.stdout.readlines()
    running.wait()
    names = [line.split()[-1] for line in announced if line.endswith("\n")]
    found = read_archive(tmp_path / ARCHIVE)
    assert set(names) <= set(found)
    assert all(one["rows"][-1] == 499 for one in found.values())


def test_what_is_no_json_is_refused_and_the_rest_stays(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write("good", {"value": 1})
    with pytest.raises(ValueError, match="Out of range"):
        results.write("bad", {"value": float("nan")})
    assert read_archive(tmp_path / ARCHIVE) == {"good": {"value": 1}}
