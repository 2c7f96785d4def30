"""What `kvtwin simulate` writes, as digests: the same before and after a change, or it is named.

`python benchmarks/digests.py out.json` runs every shipped policy under both engines, with single
steps and with fast-forward, in the tree of the current folder; it knows that tree only by its
command line. `python benchmarks/digests.py --compare old.json new.json` lists what differs, number
by number, and exits with 1 if anything does.

`python benchmarks/digests.py --forms` runs the workloads of FORM_WORKLOADS in every form: objects,
machine code (which is made first, in a minute), and both once more in tiny windows, so that traces
are read, requests kept and records handed on a few rows at a time. It prints a line a run and
exits with 1 unless requests, steps, timeline and metrics are the same to the last bit.
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


AZURE = ["azure-2023-conv", "--first", "1500"]
TABLE = [
    *AZURE, "--request-rate", "6.45", "--model", "llama-2-7b", "--gpu", "a100-80gb",
    "--max-num-seqs", "128", "--max-num-batched-tokens", "4096", "--kv-cache-memory", "20GiB",
]  # fmt: skip
HOUR = [
    *AZURE, "--request-rate", "30", "--model", "llama-3-8b", "--gpu", "h200",
    "--max-num-seqs", "64", "--max-num-batched-tokens", "8192", "--kv-cache-memory", "6GiB",
]  # fmt: skip
PAGING = ["--policy", "paging"]
FORM_WORKLOADS = {
    "hour": [*HOUR, *(word for policy in POLICIES for word in ("--policy", policy))],
    "table": [*TABLE, *PAGING],
    "table, prefix": [*TABLE, "--policy", "paging+prefix"],
    "table, swap": [*TABLE, *PAGING, "--preemption", "swap"],
    "table, longest victim": [*TABLE, *PAGING, "--victim", "longest"],
    "table, static": [*TABLE, *PAGING, "--batching", "static"],
    "table, horizon": [*TABLE, *PAGING, "--horizon", "150"],
    "hour, single steps": [*HOUR, *PAGING, "--no-fast-forward"],
    "code": ["azure-2023-code", "--first", "1500", *SHARED, *PAGING],
    "mooncake": ["mooncake-conversation", "--first", "300", *SHARED, "--policy", "paging+prefix"],
    "demo": [*AZURE, "--request-rate", "1", *TIGHT, *PAGING],
    "vllm-0.19": [*HOUR, *PAGING, "--engine", "vllm-0.19"],
    "vllm-0.32": [*HOUR, *PAGING, "--engine", "vllm-0.32"],
    "kernel tables": [
        *AZURE, "--request-rate", "4", "--model", "llama-3.1-8b", "--gpu", "rtx-4090",
        "--cost", "table", *PAGING,
    ],
    "windows": [
        *AZURE, "--request-rate", "30", "--model", "gpt-oss-20b", "--gpu", "h200",
        "--kv-cache-memory", "1GiB", "--policy", "paging:layers=unified",
    ],
    "sessions": ["coding-agents", "--first", "60", *SHARED, "--policy", "paging+prefix"],
    "closed loop": [*AZURE, *TIGHT, *PAGING, "--concurrency", "40"],
}  # fmt: skip
TINY = """
import sim.engine.record, sim.run.compiled.state, sim.run.compiled.window
import sim.run.parquet, sim.run.tables, workloads.readers.long, workloads.spool
for module in (sim.engine.record, sim.run.parquet, sim.run.tables):
    module.ROWS_AT_ONCE = 50
sim.run.compiled.state.ROWS = 20
sim.run.compiled.window.SLOTS = 8
workloads.readers.long.LEAST_ROWS = workloads.readers.long.LEAST_BYTES = 1
workloads.readers.long.ROWS = workloads.spool.ROWS = 100
"""
FORMS = {
    "objects": ("0", ""),
    "machine code": ("1", ""),
    "objects in tiny windows": ("0", TINY),
    "machine code in tiny windows": ("1", TINY),
}
"""`KVTWIN_COMPILE`, and what is said before the command."""


def simulate(
    arguments: list[str], folder: Path, before: str = "", compiled: str | None = None
) -> list[Path]:
    """Run folders that the current tree's command writes, in the order of its policies."""
    code = f"{before}\nfrom sim.cli import main; main()"
    command = [sys.executable, "-c", code, "simulate", *arguments]
    command += ["--no-report", "--jobs", "1", "-o", str(folder)]
    here = {**os.environ, "PYTHONPATH": os.getcwd()}
    if compiled is not None:
        here["KVTWIN_COMPILE"] = compiled
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


def compare_forms() -> int:
    """Print of each workload whether all forms are the same; how many aren't."""
    different = 0
    for name, workload in FORM_WORKLOADS.items():
        found: dict[str, dict[str, dict[str, Any]]] = {}  # by run and form
        for form, (compiled, before) in FORMS.items():
            with tempfile.TemporaryDirectory() as folder:
                for run in simulate(workload, Path(folder) / "out", before, compiled):
                    found.setdefault(run.parent.name, {})[form] = digest(run)
        for policy, forms in found.items():
            expected = forms["objects"]
            others = [form for form, one in forms.items() if one != expected]
            different += bool(others)
            told = "differs: " + ", ".join(others) if others else "same"
            print(f"{name}, {policy}: {told}", expected["requests"][:12], flush=True)
    print(f"{different} workloads differ")
    return different


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
        case ["--forms"]:
            sys.exit(1 if compare_forms() else 0)
        case ["--compare", old, new]:
            one, other = (json.loads(Path(path).read_text()) for path in (old, new))
            sys.exit(1 if compare(one, other) else 0)
        case [path]:
            Path(path).write_text(json.dumps(collect(), indent=1, sort_keys=True))
        case _:
            sys.exit(__doc__)
