"""Numbers that nobody can mean, as options: one line with the option's name, exit code 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MANY = "9" * 400
RUN = ["simulate", "trace.csv", "--model", "llama-2-7b", "--gpu", "a100-40gb", "-o", "out"]
SIZE = ["size", "--model", "llama-2-7b", "--gpu", "a100-40gb", "--context=1000"]
LIMITS = ("--max-num-batched-tokens", "--max-num-seqs", "--max-model-len", "--tp", "--seed")
ASKED: list[tuple[str, list[str]]] = [
    *(
        (option, [*RUN, f"{option}={value}"])
        for option, values in (
            ("--samples", (2**63, MANY)),
            *((option, (2**63, MANY, "nan", "1.5")) for option in LIMITS),
            ("--kv-cache-memory", (MANY, f"{MANY}GiB", "1e400GiB", "nanGiB")),
            ("--swap-space", (MANY, f"{MANY}GiB")),
            ("--request-rate", ("1e-320", "1e400", "nan", "inf", MANY)),
            ("--horizon", ("1e-320", "1e400", "nan", MANY)),
            ("--gpu-memory-utilization", ("1e-320", "nan", "1e400")),
            ("--slo", (f"ttft_p99={MANY}s", "ttft_p99=nans", "tpot_p50=1e400ms")),
            ("--price", (f"a100-40gb={MANY}/h", "a100-40gb=nan/h", "a100-40gb=1e400/h")),
            ("--think-time", (f"{MANY}s", "nans", "exponential:1e400s")),
            ("--warm-up", (f"{MANY}s", "nan", "1e400s")),
        )
        for value in values
    ),
    *(
        ("--block-tokens", ["traces", "describe", "trace.csv", f"--block-tokens={value}"])
        for value in (2**63, MANY)
    ),
    *(
        (option, [*SIZE, f"{option}={value}"])
        for option in ("--activation-reserve", "--weight-memory", "--kv-cache-memory")
        for value in (MANY, f"{MANY}GiB", "nanGiB", "-1GiB")
    ),
    *(("--context", [*SIZE, f"--context={value}"]) for value in (2**63, MANY)),
]
SCRIPT = """
import json, sys
from sim import cli
for arguments in json.load(sys.stdin):
    sys.argv = ['kvtwin', *arguments]
    try:
        cli.main()
    except SystemExit as error:
        print('CODE', error.code, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What was written of each command, all asked of one process, which never ends by itself."""
    folder = tmp_path_factory.mktemp("bounds")
    (folder / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,6\n")
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", SCRIPT],
        input=json.dumps([arguments for _, arguments in ASKED]),
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert {path.name for path in folder.iterdir()} == {"trace.csv"}  # nothing half-written
    parts = done.stderr.split("CODE 2\n")
    assert len(parts) == len(ASKED) + 1, done.stderr[-3000:]
    return parts


@pytest.mark.parametrize(
    "number", range(len(ASKED)), ids=[f"{arguments[-1][:40]}" for _, arguments in ASKED]
)
def test_it_is_one_line_that_names_the_option(said: list[str], number: int) -> None:
    option = ASKED[number][0]
    (line,) = said[number].splitlines()
    assert line.startswith("kvtwin: error: ")
    assert option in line or option.lstrip("-").replace("-", "_") in line
    assert len(line) < 1000
