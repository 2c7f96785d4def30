"""What would have stopped the executor on its first day: storages, packages, prompts."""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
import torch

from executor.device import require
from executor.device.assemble import Executor, host_device, random_llama
from executor.device.machine import open_machine
from executor.device.refusals import refusal
from executor.driver import free_run
from executor.work import Work
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.model.geometry import Model
from sim.model.hf_config import model_from_config
from sim.plan import Chunk, StepPlan
from sim.run.simulation import Setup, prepare
from workloads.schema import PrefixBlocks, Provenance, Trace

SAME = PrefixBlocks(8, np.array([0, 3, 6]), np.array([7, 8, 9, 7, 8, 4]))
TRACE = Trace("two", np.zeros(2), np.array([24, 24]), np.array([3, 2]), Provenance("test", 0), SAME)


def model(head_dim: int) -> Model:
    config = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": head_dim,
        "intermediate_size": 32,
        "vocab_size": 101,
        "max_position_embeddings": 64,
        "dtype": "float32",
    }
    return model_from_config(config, "tiny", "test")


def setup(policy: str, head_dim: int = 128) -> Setup:
    return prepare(
        TRACE,
        model=model(head_dim),
        gpu=host_device(open_machine("cpu")),
        policy=policy,
        max_num_batched_tokens=64,
        max_num_seqs=2,
        kv_cache_memory=2**20,
    )


class Logits:
    """A device that keeps what its steps gave."""

    def __init__(self, given: Setup) -> None:
        machine = open_machine("cpu")
        executor = Executor(given, machine, random_llama(given.model, machine))
        assert executor.allocated_bytes == executor.predicted_bytes
        self.scheduler, self.device = executor.fresh()
        self.found: list[torch.Tensor] = []

    def run(self, plan: StepPlan, work: Work) -> int:
        self.found.append(self.device.step(work).logits)
        return 10**15


def logits(policy: str) -> torch.Tensor:
    given = setup(policy)
    device = Logits(given)
    effects = serve(given.trace, device.scheduler, Recorder(given.trace, 1.0))
    free_run(effects, device.scheduler, device)
    return torch.cat(device.found)


@pytest.mark.parametrize("storage", ["int8", "int8:scale=fp16", "fp8", "int4"])
def test_quantised_storages_run_on_a_cpu(storage: str) -> None:
    exact = logits("paging:block_size=16")
    found = logits(f"paging:block_size=16+{storage}")
    assert torch.nn.functional.cosine_similarity(found, exact, dim=-1).min() > 0.98
    assert not torch.equal(found, exact)


def test_other_storages_are_refused_with_what_to_write() -> None:
    why = refusal(setup("paging:block_size=16+int4:group=64"), "cpu")
    assert why is not None
    assert "int4:group=32" in why
    assert "int8:scale=fp16" in why
    assert "\n" not in why
    assert refusal(setup("paging:block_size=16+int4"), "cpu") is None


def test_a_source_tree_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(require, "version", missing)
    assert require.version_of("kvtwin") == "not installed"


def test_what_is_not_installed_costs_one_phase_not_all(tmp_path: Path) -> None:
    """simpy and pydantic are missing on a machine that has torch alone."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfor name in ('simpy', 'pydantic', 'plotly', 'cyclopts', 'tsdownsample'):\n"
        "    sys.modules[name] = None\n"
    )
    code = (
        "import json, pathlib, sys\n"
        "from dataclasses import replace\n"
        "from benchmarks.gpu import program\n"
        "plan = replace(program.REHEARSAL, tests=('--version',), models=('llama-small',),"
        " policies=('paging',))\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "assert program.Phases(plan, folder).run() == 1\n"
        "from benchmarks.gpu.results import ARCHIVE, read_archive\n"
        "found = read_archive(folder / ARCHIVE)\n"
        "print(json.dumps({name: one.get('error', '') for name, one in found.items()}))\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path.cwd())])
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    errors = json_of(done.stdout)
    assert errors["tests"] == errors["checks"] == ""
    assert "pydantic" in errors["ceilings"]
    assert "validation-llama-small-paging" in errors


def json_of(said: str) -> dict[str, str]:
    import json

    found: dict[str, str] = json.loads(said.splitlines()[-1])
    return found


def test_equal_prefixes_are_equal_text() -> None:
    """Blocks of one name are shared, so both requests' prompts must say the same there."""
    device = Logits(setup("paging:block_size=8+prefix")).device
    ids, *_ = device._inputs(Work((), (Chunk(0, 0, 24, True), Chunk(1, 0, 24, True)), ()))
    assert torch.equal(ids[:16], ids[24:40])
    assert not torch.equal(ids[16:24], ids[40:])
