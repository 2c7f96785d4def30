"""`make gpu`: everything that needs a GPU in one run of eight minutes.

    python -m benchmarks.gpu [--rehearse] [-o FOLDER]

Each result is one JSON file as soon as it is known: ceilings, checks, attention, decode steps, a
validation and a cost table of each policy, and the kernels' own tests. All are also in one archive,
`gpu-results.tar.gz`, in the same folder. Exits 3 with one line where there is no GPU. `--rehearse`
runs the same phases on the CPU with small shapes, so that the first minute on a GPU isn't spent on
debugging; what it measures says nothing about a GPU.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.plan import GPU, REHEARSAL, Plan, setups
from benchmarks.gpu.results import Results
from executor.device.require import require_torch
from workloads.errors import InputError

if TYPE_CHECKING:
    import torch

    from executor.device.llama import Llama
    from executor.device.machine import Machine
    from sim.cost.steps.table import Hardware

BUDGET_S = 480.0
"""No phase or policy is begun that would, by the longest one before it, end later."""

TESTS_S = 90.0


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
    return Phases(REHEARSAL if options.rehearse else GPU, options.output).run()


class Phases:
    """The phases in order, and what earlier ones leave to later ones."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._results = Results(folder)
        self._failed = False
        self._opened: Machine | None = None
        self._hardware: Hardware | None = None
        self._llama: Llama | None = None

    @property
    def machine(self) -> "Machine":
        """Opened when it is first needed: what fails to import fails one phase."""
        if self._opened is None:
            from executor.device.machine import open_machine

            self._opened = open_machine(self._plan.kind)
        return self._opened

    @property
    def dtype(self) -> "torch.dtype":
        """Of the model and its cache."""
        import torch

        return torch.float32 if self._plan.kind == "cpu" else torch.bfloat16

    def run(self) -> int:
        """Every phase; one that breaks is recorded and the next one begins."""
        for name, phase in (
            ("ceilings", self.ceilings),
            ("checks", self.checks),
            ("attention", self.attention),
            ("steps", self.steps),
        ):
            self._phase(name, phase)
        self.validation()
        self._phase("tests", self.tests)
        return int(self._failed)

    def tests(self) -> dict[str, Any]:
        """The kernels' own tests, on this device, in processes of their own."""
        command = [sys.executable, "-m", "pytest", "-q", *self._plan.tests]
        running = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = running.communicate(timeout=TESTS_S)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # its workers, too
            said, _ = running.communicate()
            return {"passed": None, "said": f"not done after {TESTS_S:.0f} s: {said[-1000:]}"}
        self._failed |= running.returncode != 0
        return {"passed": running.returncode == 0, "said": said[-3000:]}

    def ceilings(self) -> dict[str, Any]:
        """Copy bandwidth and matmul rate, and the state of the GPU."""
        from benchmarks.gpu.state import gpu_state
        from executor.device.machine import measure_hardware

        self._hardware = measure_hardware(self.machine, self.dtype)
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
                bench(shape, self.machine, self.dtype, self._hardware)
                for shape in shapes
                if self._results.elapsed_s < BUDGET_S
            ]
        }

    def steps(self) -> dict[str, Any]:
        """Decode steps of the first model, whole, and as CUDA graphs without the host's part."""
        from benchmarks.gpu.attention import timed
        from executor.device.assemble import Executor, host_device, random_llama
        from executor.validation.calibrate import decode_work

        roomy = replace(
            self._plan, kv_tokens=max(self._plan.step_batches) * self._plan.max_model_len
        )
        (setup, *_) = setups(roomy, self._plan.models[0], host_device(self.machine))
        self._llama = random_llama(setup.model, self.machine)
        device = Executor(setup, self.machine, self._llama).bench()
        context = self._plan.max_model_len // 2
        found = []
        for batch in self._plan.step_batches:
            work = decode_work(batch, context)
            whole = [device.step(work) for _ in range(12)][2:]
            graph = timed(self.machine, device.prepared(work))
            found.append(
                {
                    "batch": batch,
                    "context": context,
                    "step_seconds": median(step.took_as for step in whole) / 1e18,
                    "host_seconds": median(step.host_as for step in whole) / 1e18,
                    "replayed": device.replays,
                    "model_alone": graph._asdict(),
                }
            )
        return {"model": setup.model.name, "policy": setup.label, "steps": found}

    def validation(self) -> None:
        """Calibrate and validate each policy of each model; each writes its own two results."""
        longest = 0.0
        for model, policy in self._wanted():
            if self._results.elapsed_s + 1.2 * longest > BUDGET_S:
                break
            began = self._results.elapsed_s
            name = f"{Path(model).stem}-{policy}".translate(str.maketrans(":=,+", "----"))
            self._phase(f"validation-{name}", lambda m=model, p=policy: self._validated(m, p))
            longest = max(longest, self._results.elapsed_s - began)

    def _wanted(self) -> Iterator[tuple[str, str]]:
        for model in self._plan.models:
            for policy in self._plan.policies:
                yield model, policy

    def _validated(self, model: str, policy: str) -> dict[str, Any]:
        from benchmarks.gpu.state import allocator_state
        from executor.device.assemble import host_device, random_llama
        from executor.validation.validate import validate

        gpu = host_device(self.machine)
        (setup,) = setups(replace(self._plan, policies=(policy,)), model, gpu)
        if self._llama is None or self._llama.model.name != setup.model.name:
            self._llama = None  # the last one's memory, before the next one's is taken
            self._llama = random_llama(setup.model, self.machine)
        # One at a time: the KV caches of all policies don't fit together.
        outcome = validate(setup, self.machine, self._llama, self._plan.repeats)
        table = outcome.predicted.setup.cost_table
        assert table is not None
        rows = [asdict(row) for row in outcome.rows]
        self._failed |= any(
            row["passed"] is False
            for row in rows
            # A rehearsal's few steps on a busy CPU have no times to judge, but bytes are bytes.
            if self._plan.kind == "cuda" or row["tolerance_percent"] == 0
        )
        return {
            "model": model,
            "policy": setup.label,
            "rows": rows,
            "pressure": {
                name: outcome.measured[name] for name in ("num_preemptions", "running_peak")
            },
            "allocator": allocator_state(),
            "cost_table": table.model_dump(),
        }

    def _phase(self, name: str, phase: Callable[[], dict[str, Any]]) -> None:
        if self._results.elapsed_s > BUDGET_S:
            return
        began = time.monotonic()
        try:
            content = phase()
            self._results.write(name, {**content, "elapsed_s": time.monotonic() - began})
        except Exception as problem:  # later phases must still get their minute on the GPU
            self._failed = True
            self._results.write(name, {"error": f"{type(problem).__name__}: {problem}"})
