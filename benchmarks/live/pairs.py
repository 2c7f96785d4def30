"""Serves loads with the living engine and foretells each run from steps that were timed during it.

    python -m benchmarks.live.pairs [-n 10] [-o FOLDER]

The engine is stopped after each quarter of a second of its work, and synthetic steps are timed, so
that both see the same machine; times are CPU time of the one thread that computes. FOLDER gets
every run as `kvtwin compare-run` reads it, and pairs.json with all errors.
"""

import argparse
import json
import os
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from benchmarks.live.load import BLOCK, LOADS, Load, hash_ids
from benchmarks.live.table import POINTS, table_of
from benchmarks.process import processor
from sim.cost.steps.table import CostTable, Hardware
from sim.measured.comparison import errors, side_by_side
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.model.kv_formats import kv_format
from sim.model.presets import find_model
from sim.run.simulation import execute

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv/conformance/bin/python"
MODEL = HERE / "model.json"
POLICY = f"paging:block_size={BLOCK}+prefix"
LIMITS = {
    "max_model_len": 640,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 256,
    "block_size": BLOCK,
    "enable_prefix_caching": True,
    "dtype": "float32",
}
SLICE_S, PAUSE_S, WARM_S = 0.25, 0.25, 4.0
BENCH_BLOCKS = 301


class Live:
    """vLLM in a process and an environment of its own."""

    def __init__(self, folder: Path, clock: str = "cpu") -> None:
        model = folder / "model"
        model.mkdir(parents=True, exist_ok=True)
        shutil.copy(MODEL, model / "config.json")
        self._process = Popen(
            [PYTHON, HERE / "engine.py", clock], stdin=PIPE, stdout=PIPE, text=True,
            stderr=(folder / "vllm.log").open("w"),
        )  # fmt: skip
        opened = self.ask(
            model=str(model), limits=LIMITS, bench_blocks=BENCH_BLOCKS, points=POINTS, warm_s=WARM_S
        )
        self.version = opened["vllm"]

    def ask(self, **job: Any) -> dict[str, Any]:
        """Send a job, wait for what came of it."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(job), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("vLLM ended; its last words are in vllm.log")
        answer: dict[str, Any] = json.loads(line)
        return answer


CPU_TIME = "CPU time of the computing thread"


def step_times(answer: dict[str, Any], clock: str = CPU_TIME) -> CostTable:
    """The table of steps that were timed during a run."""
    model = find_model(str(MODEL))
    token_bytes = model.kv_bytes_per_token(kv_format(model, "auto"))
    return table_of(answer, model, POLICY, token_bytes, this_cpu(clock))


def this_cpu(clock: str) -> Hardware:
    """The processor by name; its rates aren't measured, for the table's times are whole steps."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Hardware(
        kind="cpu", name=processor(), threads=1, memory_bytes=memory, copy_bytes_per_s=1,
        matmul_flops_per_s=1, clock=clock,
    )  # fmt: skip


def write_run(
    folder: Path, load: Load, answer: dict[str, Any], rows: list[dict[str, Any]], table: CostTable
) -> None:
    """The run as `read_measured` takes it. Time is the engine's clock."""
    folder.mkdir(parents=True)
    shutil.copy(MODEL, folder / "config.json")
    (folder / "steps.json").write_text(table.model_dump_json(indent=1) + "\n", encoding="utf-8")
    first_found: dict[str, int] = {}
    for step in answer["steps"]:
        for name, tokens in step["found"].items():
            first_found.setdefault(name, tokens)
    meta = {
        "schema_version": 1,
        "model": "llama-103m, random weights",
        "vllm_version": answer["vllm"],
        "engine_kwargs": {**LIMITS, "async_scheduling": False, "enforce_eager": True},
        "kv_cache": {"num_gpu_blocks": load.blocks, "block_size": BLOCK},
        "hardware": {"device_name": table.hardware.name},
        "clock": table.hardware.clock,
        "recorded_with": "python -m benchmarks.live.pairs: vLLM in process",
        "machine_load": os.getloadavg()[0],
        "load": asdict(load),
        "num_preemptions": sum(len(step["preempted"]) for step in answer["steps"]),
        "prefix_cache_hit_tokens": sum(first_found.values()),
        "engine_steps": sum(bool(step["tokens"]) for step in answer["steps"]),
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    lines, ids = [], []
    for i, (row, stamp, known) in enumerate(
        zip(rows, answer["requests"], hash_ids(rows), strict=True)
    ):
        assert stamp["tokens"] == row["output"], f"request {i} got {stamp['tokens']} tokens"
        lines.append(
            {
                "request_id": f"live-{i}",
                "input_toks": len(row["tokens"]),
                "output_toks": row["output"],
                "arrival_time": row["arrival"],
                "queued_ts": stamp["queued"],
                "first_token_ts": stamp["first"],
                "last_token_ts": stamp["last"],
            }
        )
        ids.append({"hash_ids": known})
    for name, content in (("requests", lines), ("hash_ids", ids)):
        text = "".join(json.dumps(line) + "\n" for line in content)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def compared(folder: Path) -> dict[str, Any]:
    """Errors of each metric, and what both decided, of a run in that folder."""
    measured = read_measured(str(folder))
    run = execute(prediction(measured))
    return {
        "metrics": {
            e.name: {"measured": e.measured, "predicted": e.predicted, "error_pct": e.error_pct}
            for e in errors(*side_by_side(measured, run))
        },
        "decisions": {
            "preemptions": [measured.meta["num_preemptions"], run["num_preemptions"]],
            "hit_tokens": [measured.meta["prefix_cache_hit_tokens"], run["prefix_hit_tokens"]],
            "steps": [measured.meta["engine_steps"], run["steps"]],
        },
        "extrapolated": run.cost.warnings,
    }


def main() -> None:
    """Runs alternate between the loads, so that the hour falls on both alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=10, help="paired runs of each load")
    parser.add_argument("-o", type=Path, default=Path("out/live"))
    options = parser.parse_args()
    shutil.rmtree(options.o, ignore_errors=True)
    live = Live(options.o)
    found: dict[str, list[dict[str, Any]]] = {load.name: [] for load in LOADS}
    for number in range(options.n):
        for load in LOADS:
            rows = load.rows()
            answer = live.ask(requests=rows, blocks=load.blocks, slice_s=SLICE_S, pause_s=PAUSE_S)
            answer["vllm"] = live.version
            folder = options.o / f"{load.name}-{number}"
            write_run(folder, load, answer, rows, step_times(answer))
            found[load.name].append(compared(folder))
            text = json.dumps(found, indent=1) + "\n"
            (options.o / "pairs.json").write_text(text, encoding="utf-8")
            print(load.name, number, json.dumps(found[load.name][-1]["decisions"]), flush=True)


if __name__ == "__main__":
    main()
