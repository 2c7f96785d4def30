"""A machine that says it has a GPU: the host's whole work, every kernel launched to a stub.

    python -m benchmarks.gpu.pretend variants|host|flow CONFIG FOLDER POLICY...

Launches go through Triton's own specialisation, so what is counted is what a GPU's process would
compile, and what is timed is all of the host's work but the driver's call. Pools have their real
shapes and are never touched. TRITON_INTERPRET must not be set.

variants: kernels of the shipped plan, and how many a measured step would have to compile.
flow: the program's phases over a small model, which must end without an error.
host: microseconds of a decode step's parts, launched layer by layer and replayed as a graph.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from benchmarks.gpu.plan import GPU, REHEARSAL, Plan, setups
from benchmarks.gpu.results import ARCHIVE, read_archive
from executor.attention.triton_path import TritonAttention
from executor.cache.choice import table_for
from executor.cache.table import Table
from executor.cache.tensors import storage_of
from executor.device.graphs import Replay
from executor.device.machine import Machine
from executor.device.text import Text
from executor.device.torch_device import TorchDevice
from executor.driver import free_run
from executor.kernels import configs
from executor.kernels.pool import allocate
from executor.kernels.topk import allocate_landmarks
from executor.validation.calibrate import decode_work
from executor.validation.warm import warm_up_works
from executor.work import Work
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.plan import StepPlan
from sim.run.simulation import Setup

MULTIPROCESSORS = 132
REPLAY_US = 10
"""What is added for the driver's launch of one graph, which isn't made here."""


class Compiled(NamedTuple):
    """A kernel that a GPU's process would have compiled."""

    name: str
    constants: str


class StandIn:
    """Answers what the JIT asks of a driver."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0


class Stub:
    """A compiled kernel that does nothing."""

    function = packed_metadata = None

    def launch_metadata(self, *_: object) -> None:
        return None

    def run(self, *_: object) -> None:
        return None


class Pretender(Machine):
    """The CPU under a GPU's name: launches go nowhere, replays do nothing."""

    @property
    def kind(self) -> str:
        return "cuda"

    @property
    def waits(self) -> Callable[[], object]:
        return lambda: None

    @property
    def capture(self) -> Any:
        return pretended_capture

    def identity(self) -> tuple[str, int]:
        return "a pretended GPU", 2**37


def pretended_capture(call: Callable[[], torch.Tensor]) -> tuple[Replay, torch.Tensor]:
    """What was launched once is launched again by nobody."""
    result = call()
    return lambda: None, result


def pretended_multiprocessors(device: torch.device) -> int:
    """An H200's. Asked at each launch, so no mock that remembers its calls."""
    return MULTIPROCESSORS


@contextmanager
def pretended() -> Iterator[list[Compiled]]:
    """Inside, kernels are specialised for an H200 and launched to a stub; yields what was new."""
    compiled: list[Compiled] = []

    def compile_stub(
        self: Any, key: Any, signature: Any, device: Any, constexprs: Any, *_: object, **__: object
    ) -> Stub:
        stub = self.device_caches[device][0][key] = Stub()
        constants = {self.arg_names[at[0]]: value for at, value in constexprs.items()}
        compiled.append(Compiled(self.fn.__name__, f"{constants} {signature}"))
        return stub

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(driver, "_active", StandIn()))
        stack.enter_context(mock.patch.object(JITFunction, "_do_compile", compile_stub))
        for name in ("executor.kernels.decode", "executor.kernels.configs"):
            module = sys.modules.get(name, configs)
            stack.enter_context(
                mock.patch.object(module, "multiprocessors", pretended_multiprocessors)
            )
        yield compiled


class Bare:
    """Follows plans on one layer: the table, addresses and launches; no model."""

    def __init__(self, setup: Setup, table: Table, layers: int = 1, step_s: float = 0.0) -> None:
        group = setup.model.groups[0]
        pages, page = table.units, table.unit_slots
        if not table.paged:
            pages, page = 1, pages * page
        storage, scale = storage_of(setup.model, setup.manager().pool.token_bytes)
        pool = allocate(pages, group.kv_heads, page, group.head_dim, storage=storage, scale=scale)
        marks = [allocate_landmarks(pool)] if table.landmark_bytes else []
        self.table, self.attention = table, TritonAttention(table, [pool], marks)
        self._setup, self._layers, self._step_as = setup, layers, int(step_s * 1e18)
        self.seconds: dict[str, list[float]] = {"follow": [], "begin": [], "attend": []}

    def run(self, plan: StepPlan, work: Work) -> int:
        self.step(work)
        return self._step_as

    def step(self, work: Work) -> None:
        model, group = self._setup.model, self._setup.model.groups[0]
        started = time.thread_time()  # neighbours on a shared machine don't count
        self.table.follow(work)
        followed = time.thread_time()
        self.attention.begin(work)
        begun = time.thread_time()
        heads = model.num_heads + group.kv_heads
        qk = torch.empty(work.tokens, heads, group.head_dim, dtype=torch.bfloat16)
        qkv = torch.empty(work.tokens, heads + group.kv_heads, group.head_dim, dtype=qk.dtype)
        for _ in range(self._layers):
            self.attention.attend(
                0, qk[:, : model.num_heads], qk[:, model.num_heads :], qkv[:, heads:]
            )
        parts = (followed - started, begun - followed, time.thread_time() - begun)
        for name, seconds in zip(self.seconds, parts, strict=True):
            self.seconds[name].append(seconds)

    def release(self) -> None:
        self.table.follow(Work(tuple(self.table.owned), (), ()))


def variants(plan: Plan = GPU) -> tuple[list[Compiled], dict[str, int]]:
    """All kernels of the plan; and by policy those that measured steps would compile, over runs as
    fast as planned and 10 % faster and slower."""
    torch.set_num_threads(1)  # waiting threads burn the others' time
    late: dict[str, int] = {}
    with pretended() as compiled:
        for model in plan.models:
            for setup in setups(plan, model, "h200"):
                table = table_for(setup.manager(), setup.policy).synthetic()
                bench = Bare(setup, table)
                for work in warm_up_works(table, setup.limits):
                    bench.release()
                    bench.step(work)
                before = len(compiled)
                # Models differ in strides alone: others are tried at the planned pace.
                paces = (0.010, 0.011, 0.009) if model == plan.models[0] else (0.010,)
                for step_s in paces:
                    manager = setup.manager()
                    device = Bare(setup, table_for(manager, setup.policy), step_s=step_s)
                    scheduler = Scheduler(manager, setup.limits)
                    recorder = Recorder(setup.trace, 1.0)
                    free_run(serve(setup.trace, scheduler, recorder, None), scheduler, device)
                late[f"{model} {setup.label}"] = len(compiled) - before
    return compiled, late


BATCHES = ((1, 2048), (16, 2048), (64, 2048), (64, 4000))
HOST_POLICIES = ("paging:block_size=16", "paging:block_size=1", "preallocation")


class Launcher:
    """A model of nothing but its layers' attention."""

    def __init__(self, setup: Setup) -> None:
        self.model = setup.model
        self.embedding = torch.empty(1)
        self._logits = torch.zeros(setup.limits.max_num_seqs, 2)

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, sampled: torch.Tensor, attention: Any
    ) -> torch.Tensor:
        group, heads = self.model.groups[0], self.model.num_heads
        qkv = torch.empty(
            len(ids), heads + 2 * group.kv_heads, group.head_dim, dtype=torch.bfloat16
        )
        q, k, v = qkv.tensor_split((heads, heads + group.kv_heads), 1)
        for _ in range(group.layers):
            attention.attend(0, q, k, v)
        return self._logits[: len(sampled)]


def host(policies: tuple[str, ...] = HOST_POLICIES) -> Iterator[dict[str, Any]]:
    """Microseconds by part, for each policy, batch and context. The dense layers' launches, some 20
    a layer, are not made and not counted; a graph replays them with the rest."""
    torch.set_num_threads(1)
    plan = replace(GPU, policies=policies, kv_tokens=64 * 4096)
    with pretended():
        for setup in setups(plan, "llama-3-8b", "h200"):
            bare = Bare(setup, table_for(setup.manager(), setup.policy).synthetic())
            model: Any = Launcher(setup)
            limits, attention = setup.limits, bare.attention
            text = Text(setup.model.vocab_size, torch.device("cpu"), 512)
            device = TorchDevice(
                model, bare.table, attention, text, time.thread_time_ns, lambda: None
            )
            for batch, context in BATCHES:
                work = decode_work(batch, context)
                bare.release()
                device._graphs = None
                launched = [device.step(work).took_as / 1e12 for _ in range(12)][3:]
                begin = []
                for _ in range(12):
                    began = time.thread_time_ns()
                    attention.begin(work)
                    begin.append((time.thread_time_ns() - began) / 1e3)
                device.capture_decodes(pretended_capture, limits.max_num_seqs, limits.max_model_len)
                replayed = [device.step(work).took_as / 1e12 for _ in range(15)][3:]
                yield {
                    "policy": setup.label,
                    "batch": batch,
                    "context": context,
                    "begin_us": round(median(begin[3:])),
                    "launched_us": round(median(launched)),
                    "launched_layer_us": round(median(launched) / setup.model.groups[0].layers),
                    "replayed_us": round(median(replayed) + REPLAY_US),
                }


def flow(policies: tuple[str, ...], model: Path, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The program's own phases under the pretender, a policy at a time: its errors, by policy."""
    from benchmarks.gpu import attention, program
    from executor.device import machine
    from executor.validation import calibrate, validate

    torch.set_num_threads(1)  # layers so small cost threads more than they save

    def called_thrice(_: Machine, call: Callable[[], object]) -> list[float]:
        for _ in range(3):
            call()
        return [1.0] * 12

    plan = replace(
        REHEARSAL,
        kind="cuda",
        models=(str(model),),
        requests=3,
        max_num_batched_tokens=64,
        max_model_len=256,
        kv_tokens=512,
        decode=REHEARSAL.decode[:1],
        step_batches=(1, 3),
    )
    with ExitStack() as stack:
        compiled = stack.enter_context(pretended())
        for owner, name, value in (
            (attention, "cold_times", called_thrice),
            (machine, "COPIED_BYTES", {"cuda": 1 << 20}),
            (machine, "MATMUL_SIZE", {"cuda": 128}),
            (calibrate, "VISIT_AS", 0),
            (validate, "PAUSE_S", 0.02),
            (torch.cuda, "is_available", lambda: False),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        for i, policy in enumerate(policies):
            phases = program.Phases(replace(plan, policies=(policy,)), folder / str(i))
            phases._opened = Pretender(torch.device("cpu"), 1, time.thread_time_ns, "pretended")
            for name in ("ceilings", "attention", "steps")[0 if i == 0 else 2 :]:
                phases._phase(name, getattr(phases, name))
            phases.validation()
            found = read_archive(folder / str(i) / ARCHIVE)
            yield (
                policy,
                [f"{name}: {one['error']}" for name, one in found.items() if "error" in one],
            )
        assert compiled, "nothing was launched"


def main() -> None:
    """Print what was asked for."""
    asked = sys.argv[1:] or ["variants", "host"]
    if "variants" in asked:
        compiled, late = variants()
        names = [one.name for one in compiled]
        kernels = {name: names.count(name) for name in sorted(set(names))}
        print(json.dumps({"kernels": kernels, "late": late}))
    if "host" in asked:
        for line in host():
            print(json.dumps(line), flush=True)
    if "flow" in asked:
        config, folder, *policies = asked[asked.index("flow") + 1 :]
        for policy, errors in flow(tuple(policies), Path(config), Path(folder)):
            print("FAIL" if errors else "ok", policy, *errors, flush=True)


if __name__ == "__main__":
    main()
