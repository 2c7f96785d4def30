"""A prepared run on real tensors: the scheduler that decides and the device that follows it."""

from typing import NamedTuple

import torch

from executor.attention.evicting import EvictingAttention
from executor.attention.torch_path import TorchAttention
from executor.cache.choice import table_for
from executor.cache.host import HostPool
from executor.cache.table import Table
from executor.cache.tensors import DTYPES, CacheTensors, predicted_bytes
from executor.device.llama import Llama, random_weights
from executor.device.machine import Machine
from executor.device.refusals import refusal
from executor.device.text import Text
from executor.device.torch_device import StepAttention, TorchDevice
from executor.kernels.pool import KVPool
from sim.engine.scheduler import Scheduler
from sim.hardware import Device
from sim.model.geometry import Model
from sim.run.seam import told_by
from sim.run.simulation import Setup
from workloads.errors import InputError


class Assembled(NamedTuple):
    """Fresh state over a cache's tensors."""

    scheduler: Scheduler
    device: TorchDevice


class Executor:
    """The tensors of one setup, allocated once; `fresh` starts a run over them."""

    def __init__(self, setup: Setup, machine: Machine, llama: Llama) -> None:
        """Raises InputError where the executor doesn't run this setup."""
        if why := refusal(setup, machine.kind):
            raise InputError(f"--policy {setup.label}: {why}")
        self.setup, self._machine, self._llama = setup, machine, llama
        manager = setup.manager()
        with told_by(setup.policy, setup.label):
            table = table_for(manager, setup.policy)
            self.predicted_bytes = predicted_bytes(manager)
        token_bytes = manager.pool.token_bytes
        before = machine.requested_bytes()
        self.cache = CacheTensors(table, setup.model, token_bytes, machine.device)
        self.allocated_bytes = self.cache.nbytes
        if before is not None:  # what the allocator says it was asked for, not what we counted
            after = machine.requested_bytes() or 0
            self.allocated_bytes = after - before - self.cache.fixed_bytes
        self.cache.fill()
        self._replaying: TorchDevice | None = None  # its graphs serve every run, one at a time

    def fresh(self) -> Assembled:
        """A scheduler with nothing in it, and a device whose table follows it. Only the device that
        was handed out last is good."""
        setup = self.setup
        manager = setup.manager()
        with told_by(setup.policy, setup.label):
            table, scheduler = table_for(manager, setup.policy), Scheduler(manager, setup.limits)
        return Assembled(scheduler, self._device(table))

    def bench(self) -> TorchDevice:
        """A device for steps that no scheduler decides: its table follows them alone."""
        manager, policy = self.setup.manager(), self.setup.policy
        with told_by(policy, self.setup.label):
            table = table_for(manager, policy).synthetic()
        return self._device(table)

    def _device(self, table: Table) -> TorchDevice:
        setup = self.setup
        self.cache.back(table)
        if self._replaying:
            self._replaying.restart(table)
            return self._replaying
        dtype = DTYPES[setup.model.dtype_bytes]
        attention = attention_for(self._machine, table, self.cache.pools, dtype, self.cache)
        requests, clock = max(len(setup.trace), setup.limits.max_num_seqs), self._machine.clock
        swaps = setup.limits.pressure.preemption == "swap"
        device = TorchDevice(
            self._llama,
            table,
            attention,
            Text(setup.model.vocab_size, self._machine.device, requests, setup.trace),
            clock,
            self._machine.waits,
            HostPool(self.cache.stored, self.cache.marks + self.cache.scores) if swaps else None,
        )
        if capture := self._machine.capture:
            limits = setup.limits
            device.capture_decodes(capture, limits.max_num_seqs, limits.max_model_len)
        if device.replays:
            self._replaying = device
        return device


def attention_for(
    machine: Machine,
    table: Table,
    pools: list[KVPool],
    dtype: torch.dtype,
    cache: CacheTensors | None = None,
) -> StepAttention:
    """Our kernels on a GPU, torch on a CPU.

    pools: of each layer, and `cache` what it has beside them.
    """
    marks, views = (cache.marks, cache.views) if cache else ((), ())
    if cache and cache.scores:
        return EvictingAttention(table, pools, cache.scores, dtype, machine.kind == "cuda")
    if machine.kind == "cuda":
        from executor.attention.triton_path import TritonAttention  # late: it needs triton

        return TritonAttention(table, pools, marks, views)
    return TorchAttention(table, pools, dtype, marks, views)


def random_llama(model: Model, machine: Machine) -> Llama:
    """The model with random weights on that machine."""
    return Llama(model, random_weights(model, machine.device))


def host_device(machine: Machine) -> Device:
    """The machine before anything was measured: its memory counts, its rates are not used."""
    name, memory = machine.identity()
    return Device(name, memory, 10**10, 10**11, 10**10, 10**10, "not measured", "the system's")
