"""The machine that runs steps: its torch device, its clock, and what it measures of itself."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import torch

from executor.device.graphs import Capture, Replay
from executor.device.torch_device import Clock
from workloads.errors import InputError

if TYPE_CHECKING:
    from sim.cost.steps.table import Hardware

COPIED_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}
MATMUL_SIZE = {"cpu": 1024, "cuda": 8192}


@dataclass(frozen=True)
class Machine:
    """One device and the clock by which its steps are timed."""

    device: torch.device
    threads: int
    clock: Clock
    clock_name: str

    @property
    def waits(self) -> Callable[[], object] | None:
        """Blocks until the device is done; None where calls return when they are."""
        return torch.cuda.synchronize if self.device.type == "cuda" else None

    def requested_bytes(self) -> int | None:
        """Bytes of all tensors by the GPU's allocator; None where nobody counts."""
        if self.device.type != "cuda":
            return None
        return int(torch.cuda.memory_stats().get("requested_bytes.all.current", 0))

    @property
    def capture(self) -> Capture | None:
        """How this machine records launches for replaying; None where there is nothing to save."""
        return captured if self.device.type == "cuda" else None

    @property
    def kind(self) -> str:
        return self.device.type

    def identity(self) -> tuple[str, int]:
        """The device's name and bytes of memory."""
        if self.kind == "cuda":
            properties = torch.cuda.get_device_properties(0)
            return properties.name, properties.total_memory
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        info = Path("/proc/cpuinfo")
        lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        return (names or [platform.processor() or platform.machine()])[0], memory


def open_machine(kind: str, threads: int = 1) -> Machine:
    """The CPU with so many threads, or the first NVIDIA GPU. Sets torch's threads.

    One CPU thread is timed by its own CPU time: a step then costs what it would on a core of its
    own, whoever else uses the machine. Raises InputError where there is no such device.
    """
    if kind == "cuda":
        if not torch.cuda.is_available():
            raise InputError("--device cuda: torch sees no NVIDIA GPU here; expected --device cpu")
        return Machine(torch.device("cuda"), 1, time.perf_counter_ns, "wall time, synchronised")
    if kind != "cpu":
        raise InputError(f"--device {kind}: expected cpu or cuda")
    if threads < 1:
        raise InputError(f"--threads {threads}: expected at least 1")
    torch.set_num_threads(threads)
    if threads == 1:
        return Machine(torch.device("cpu"), 1, time.thread_time_ns, "CPU time of the one thread")
    return Machine(torch.device("cpu"), threads, time.perf_counter_ns, "wall time")


def captured(call: Callable[[], torch.Tensor]) -> tuple[Replay, torch.Tensor]:
    """The call as a CUDA graph. It must have run before: what compiles can't be captured."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph.replay, result


def measure_hardware(machine: Machine, dtype: torch.dtype) -> "Hardware":
    """Copy bandwidth, link to the host, matmul rate: each a median, by the machine's own clock."""
    from sim.cost.steps.table import Hardware  # late: a clock must not need what reads files

    device, kind = machine.device, machine.kind
    source = torch.zeros(COPIED_BYTES[kind], dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    copied = seconds(machine, lambda: target.copy_(source))
    there = device.type == "cuda"
    host = torch.zeros(COPIED_BYTES[kind] // 4, dtype=torch.uint8, pin_memory=there)
    left = seconds(machine, lambda: host.copy_(source[: len(host)], non_blocking=True))
    size = MATMUL_SIZE[kind]
    a = torch.randn(size, size, device=device).to(dtype)
    multiplied = seconds(machine, lambda: torch.mm(a, a))
    name, memory = machine.identity()
    return Hardware(
        kind="cuda" if kind == "cuda" else "cpu",
        name=name,
        threads=machine.threads,
        memory_bytes=memory,
        copy_bytes_per_s=round(2 * source.nbytes / copied),
        host_bytes_per_s=round(host.nbytes / left),
        matmul_flops_per_s=round(2 * size**3 / multiplied),
        clock=machine.clock_name,
    )


def seconds(machine: Machine, call: Callable[[], object], repeats: int = 9) -> float:
    """Median time of a call, after two to warm up."""
    times = []
    for _ in range(repeats + 2):
        synchronise(machine.device)
        start = machine.clock()
        call()
        synchronise(machine.device)
        times.append(machine.clock() - start)
    return median(times[2:]) / 1e9


def synchronise(device: torch.device) -> None:
    """Wait for what was started on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()
