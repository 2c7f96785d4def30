"""`make gpu`: everything that needs a GPU in one run of under nine minutes.

    python -m benchmarks.gpu [--rehearse] [-o FOLDER]

Phases write one JSON file each as soon as they end: kernel tests, ceilings, checks, attention,
decode steps, and validation with its cost tables. Exits 3 with one line where there is no GPU.
`--rehearse` runs the same phases on the CPU with small shapes, so that the first minute on a GPU
isn't spent on debugging; what it measures says nothing about a GPU.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from executor.device.require import require_torch
from workloads.errors import InputError

if TYPE_CHECKING:
    from sim.cost.steps.table import Hardware
    from sim.run.simulation import Setup

BUDGET_S = 500.0
"""After so long no phase or policy is begun."""

TESTS_S = 150.0

GIB = 2**30


@dataclass(frozen=True)
class Plan:
    """What a run covers: the real one, or its rehearsal."""

    kind: str
    models: tuple[str, ...]
    policies: tuple[str, ...]
    kv_bytes: int  # of a cache; validation holds two, one that runs and one to calibrate in
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    requests: int
    request_rate: float
    repeats: int
    tests: tuple[str, ...]  # arguments of pytest
    step_batches: tuple[int, ...]
    decode: tuple[tuple[int, int, int, int, int, int], ...]  # batch, context, heads, kv, dim, page
    prefill: tuple[tuple[int, int, int, int, int, int], ...]  # tokens, past, heads, kv, dim, page


GPU = Plan(
    kind="cuda",
    models=("llama-3-8b", "llama-2-13b"),
    policies=(
        "paging:block_size=16",
        "preallocation",
        "sliding_window:window=1024,sinks=4",
        "paging:block_size=512",
        "paging:block_size=128",
    ),
    kv_bytes=40 * GIB,
    max_num_seqs=64,
    max_num_batched_tokens=2048,
    max_model_len=4096,
    requests=40,
    request_rate=8.0,
    repeats=1,
    tests=("tests/executor/kernels", "-n", "12"),
    step_batches=(1, 16, 64),
    decode=(
        (64, 4096, 32, 8, 128, 16),
        (64, 4096, 32, 8, 128, 128),
        (64, 4096, 32, 8, 128, 0),
        (8, 8192, 40, 40, 128, 16),
        (1, 65_536, 32, 8, 128, 16),
    ),
    prefill=((8192, 0, 32, 8, 128, 16), (8192, 0, 40, 40, 128, 0), (2048, 6144, 32, 8, 128, 16)),
)

REHEARSAL = Plan(
    kind="cpu",
    models=("llama-small",),
    policies=("paging:block_size=16", "preallocation", "sliding_window:window=256,sinks=4"),
    kv_bytes=GIB // 16,
    max_num_seqs=4,
    max_num_batched_tokens=256,
    max_model_len=1024,
    requests=3,
    request_rate=4.0,
    repeats=1,
    tests=("tests/executor/kernels/test_blocks.py", "-n", "0"),
    step_batches=(1, 4),
    decode=((8, 1024, 8, 2, 64, 16), (8, 1024, 8, 2, 64, 0)),
    prefill=((256, 256, 8, 2, 64, 16),),
)


def main(arguments: list[str] | None = None) -> int:
    """Run all phases. 0: all passed; 1: a check or validation failed; 3: no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="run on the CPU, small")
    parser.add_argument("-o", "--output", type=Path, default=Path("executor/results"))
    options = parser.parse_args(arguments)
    try:
        require_torch()
    except InputError as error:
        print(f"kvtwin: error: {error}", file=sys.stderr)
        return 2
    import torch

    if not options.rehearse and not torch.cuda.is_available():
        print("kvtwin: no NVIDIA GPU here, nothing was measured (try --rehearse)", file=sys.stderr)
        return 3
    plan = REHEARSAL if options.rehearse else GPU
    options.output.mkdir(parents=True, exist_ok=True)
    return Phases(plan, options.output).run()


class Phases:
    """The phases in order, and what earlier ones leave to later ones."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        import torch

        from executor.device.machine import open_machine

        self._plan = plan
        self._folder = folder
        self._began = time.monotonic()
        self._failed = False
        self._machine = open_machine(plan.kind)
        self._dtype = torch.float32 if plan.kind == "cpu" else torch.bfloat16
        self._hardware: Hardware | None = None

    def run(self) -> int:
        """Every phase; one that breaks is recorded and the next one begins."""
        for name, phase in (
            ("tests", self.tests),
            ("ceilings", self.ceilings),
            ("checks", self.checks),
            ("attention", self.attention),
            ("steps", self.steps),
            ("validation", self.validation),
        ):
            self._phase(name, phase)
        return int(self._failed)

    def tests(self) -> dict[str, Any]:
        """The kernels' own tests, on this device, in a process of their own."""
        command = [sys.executable, "-m", "pytest", "-q", *self._plan.tests]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=TESTS_S
            )
        except subprocess.TimeoutExpired:
            return {"passed": None, "said": f"not done after {TESTS_S:.0f} s"}
        self._failed |= done.returncode != 0
        return {"passed": done.returncode == 0, "said": done.stdout[-2000:] + done.stderr[-2000:]}

    def ceilings(self) -> dict[str, Any]:
        """Copy bandwidth and matmul rate, and the state of the GPU."""
        from benchmarks.gpu.state import gpu_state
        from executor.device.machine import measure_hardware

        self._hardware = measure_hardware(self._machine, self._dtype)
        state = gpu_state() if self._plan.kind == "cuda" else {}
        return {**self._hardware.model_dump(), "state": state}

    def checks(self) -> dict[str, Any]:
        """Each kernel against plain attention."""
        from executor.health.doctor import kernel_checks, torch_checks

        found = [*torch_checks()]
        if self._plan.kind == "cuda":
            found += kernel_checks("cuda")
        self._failed |= any(finding.works is False for finding in found)
        return {"checks": [finding._asdict() for finding in found]}

    def attention(self) -> dict[str, Any]:
        """Decode and prefill against the ceilings."""
        from benchmarks.gpu.attention import Shape, bench

        assert self._hardware is not None, "no ceilings"
        shapes = [Shape(*sizes) for sizes in self._plan.decode]
        shapes += [replace(shape, storage="int8") for shape in shapes[:1]]
        shapes += [
            Shape(1, past, heads, kv, dim, page, tokens=tokens)
            for tokens, past, heads, kv, dim, page in self._plan.prefill
        ]
        return {
            "shapes": [
                bench(shape, self._machine, self._dtype, self._hardware)
                for shape in shapes
                if self._in_time()
            ]
        }

    def steps(self) -> dict[str, Any]:
        """Decode steps of the first model, whole, and as CUDA graphs without the host's part."""
        from benchmarks.gpu.attention import timed
        from executor.device.assemble import Executor, random_llama
        from executor.validation.calibrate import decode_work

        setup = self._setups(self._plan.models[0])[0]
        device = Executor(setup, self._machine, random_llama(setup.model, self._machine)).bench()
        context = self._plan.max_model_len // 2
        found = []
        for batch in self._plan.step_batches:
            work = decode_work(batch, context)
            whole = [device.step(work)[1] / 1e18 for _ in range(12)][2:]
            graph = timed(self._machine, device.prepared(work))
            found.append(
                {
                    "batch": batch,
                    "context": context,
                    "step_seconds": median(whole),
                    "graph": graph._asdict(),
                }
            )
        return {"model": setup.model.name, "policy": setup.label, "steps": found}

    def validation(self) -> dict[str, Any]:
        """Calibrate and validate each policy of each model; a cost table each is written beside."""
        from benchmarks.gpu.state import allocator_state
        from executor.device.assemble import random_llama
        from executor.validation.validate import validate
        from sim.run.folder import folder_name

        plan, machine = self._plan, self._machine
        memory: list[dict[str, Any]] = []
        judged: list[dict[str, Any]] = []
        for model in plan.models:
            if not self._in_time():
                break
            setups = self._setups(model)
            llama = random_llama(setups[0].model, machine)
            for setup in setups:
                if not self._in_time():
                    break
                # One at a time: the KV caches of all policies don't fit together.
                outcome = validate(setup, machine, llama, plan.repeats)
                table = outcome.predicted.setup.cost_table
                assert table is not None
                self._write(f"cost-{model}-{folder_name(setup.label)}", table.model_dump())
                memory.append({"model": model, "policy": setup.label, **allocator_state()})
                judged += [{"model": model, **asdict(row)} for row in outcome.rows]
        self._failed |= any(
            row["passed"] is False
            for row in judged
            # A rehearsal's few steps on a busy CPU have no times to judge, but bytes are bytes.
            if plan.kind == "cuda" or row["tolerance_percent"] == 0
        )
        return {"rows": judged, "memory": memory}

    def _setups(self, model: str) -> "list[Setup]":
        from executor.device.assemble import host_device
        from sim.run.simulation import prepare
        from workloads import read_trace
        from workloads.transform import first

        plan = self._plan
        trace = first(read_trace("azure-2023-conv"), plan.requests)
        return [
            prepare(
                trace,
                model=model,
                gpu=host_device(self._machine),
                policy=policy,
                request_rate=plan.request_rate,
                max_num_seqs=plan.max_num_seqs,
                max_num_batched_tokens=plan.max_num_batched_tokens,
                max_model_len=plan.max_model_len,
                kv_cache_memory=plan.kv_bytes,
            )
            for policy in plan.policies
        ]

    def _in_time(self) -> bool:
        return time.monotonic() - self._began < BUDGET_S

    def _phase(self, name: str, phase: Callable[[], dict[str, Any]]) -> None:
        began = time.monotonic()
        try:
            content = phase()
        except Exception as problem:  # later phases must still get their minute on the GPU
            content = {"error": f"{type(problem).__name__}: {problem}"}
            self._failed = True
        self._write(name, {**content, "elapsed_s": time.monotonic() - began})

    def _write(self, name: str, content: dict[str, Any]) -> None:
        text = json.dumps(content, indent=1, allow_nan=False)
        (self._folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{time.monotonic() - self._began:6.1f} s  {name}", flush=True)
