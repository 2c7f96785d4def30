"""What `kvtwin simulate` writes, as digests: the same before and after a change, or it is named.

`python benchmarks/digests.py out.json` runs every shipped policy under both engines, with single
steps and with fast-forward, in the tree of the current folder; it knows that tree only by its
command line. `python benchmarks/digests.py --compare old.json new.json` lists what differs, number
by number, and exits with 1 if anything does.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TABLES = ("requests", "steps", "timeline")
POLICIES = (
    "preallocation",
    "preallocation:reserve=pow2,allocator=buddy",
    "preallocation:reserve=oracle",
    "growing",
    "chunked",
    "paging",
    "paging:block_size=1",
    "virtual",
    "sliding_window:window=1024,sinks=4",
    "paging+top_k",
    "paging+fp8",
    "paging+int8",
    "paging+int4",
    "paging:block_size=8,watermark=0.05",
    "paging:block_size=32+prefix",
)
TIGHT = ["--model", "llama-2-13b", "--gpu", "a100-40gb", "--kv-cache-memory", "12GiB"]
SHARED = ["--model", "llama-3.1-8b", "--gpu", "h200", "--kv-cache-memory", "20GiB"]
WORKLOADS = {
    "conversations": ["azure-2023-conv", "--first", "200", "--request-rate", "4", *TIGHT],
    "swap, longest victim": [
        "azure-2023-conv", "--first", "200", "--request-rate", "4", *TIGHT,
        "--preemption", "swap", "--victim", "longest",
    ],
    "prefixes": ["mooncake-conversation", "--first", "60", *SHARED],
}  # fmt: skip
ENGINES = ("default", "vllm-0.19")
STEPS = ("--fast-forward", "--no-fast-forward")


def simulate(arguments: list[str], folder: Path) -> list[Path]:
    """Run folders that the current tree's command writes, in the order of its policies."""
    code = "from sim.cli import main; main()"
    command = [sys.executable, "-c", code, "simulate", *arguments]
    command += ["--no-report", "--jobs", "1", "-o", str(folder)]
    here = {**os.environ, "PYTHONPATH": os.getcwd()}
    subprocess.run(command, check=True, env=here, stdout=subprocess.DEVNULL)
    return sorted(folder.glob("*/run.json"))


def digest(run: Path) -> dict[str, Any]:
    """SHA-256 of each table, and the metrics by name."""
    tables = {
        name: hashlib.sha256((run.parent / f"{name}.parquet").read_bytes()).hexdigest()
        for name in TABLES
    }
    metrics = json.loads(run.read_text())["metrics"]
    return {**tables, "metrics": {metric["name"]: metric["value"] for metric in metrics}}


def collect() -> dict[str, dict[str, Any]]:
    """Every case by its name."""
    found: dict[str, dict[str, Any]] = {}
    policies = [word for policy in POLICIES for word in ("--policy", policy)]
    for name, workload in WORKLOADS.items():
        for engine in ENGINES:
            for steps in STEPS:
                with tempfile.TemporaryDirectory() as folder:
                    arguments = [*workload, *policies, "--engine", engine, steps]
                    runs = simulate(arguments, Path(folder) / "out")
                    for run in runs:
                        case = f"{name}, {engine}, {steps[2:]}, {run.parent.name}"
                        found[case] = digest(run)
                        print(case, *(found[case][table][:12] for table in TABLES), flush=True)
    return found


def compare(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> int:
    """Print what differs; how many cases do."""
    different = 0
    for case in sorted(old.keys() | new.keys()):
        before, after = old.get(case), new.get(case)
        if before == after:
            continue
        different += 1
        if before is None or after is None:
            print(f"{case}: only in the {'new' if before is None else 'old'} ones")
            continue
        tables = [name for name in TABLES if before[name] != after[name]]
        print(f"{case}: {', '.join(tables) or 'the same tables'}")
        was, now = before["metrics"], after["metrics"]
        for metric in sorted(was.keys() | now.keys()):
            if was.get(metric) != now.get(metric):
                print(f"  {metric}: {was.get(metric)} -> {now.get(metric)}")
    print(f"{different} of {len(old.keys() | new.keys())} cases differ")
    return different


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--compare", old, new]:
            one, other = (json.loads(Path(path).read_text()) for path in (old, new))
            sys.exit(1 if compare(one, other) else 0)
        case [path]:
            Path(path).write_text(json.dumps(collect(), indent=1, sort_keys=True))
        case _:
            sys.exit(__doc__)
