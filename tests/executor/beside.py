"""A device beside attention written out plainly, under the same plans."""

from executor.cache.contiguous import Contiguous
from executor.device.assemble import Executor, random_llama
from executor.device.llama import Llama
from executor.device.machine import open_machine
from executor.device.text import Text
from executor.device.torch_device import StepAttention, TorchDevice
from executor.driver import free_run
from executor.work import Work
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.plan import StepPlan
from sim.run.simulation import Setup


class Beside:
    """How far the logits are apart. The device's memory is NaN where nothing was written."""

    def __init__(self, given: Setup, plain: StepAttention) -> None:
        machine = open_machine("cpu")
        executor = Executor(given, machine, random_llama(given.model, machine))
        assert executor.allocated_bytes == executor.predicted_bytes
        for pool in executor.cache.stored:
            if pool.storage == "native":
                pool.k.fill_(float("nan"))
                pool.v.fill_(float("nan"))
        self.scheduler, self.device = executor.fresh()
        llama: Llama = self.device._llama
        text = Text(given.model.vocab_size, machine.device, len(given.trace), given.trace)
        self.plain = TorchDevice(llama, Contiguous(64, 128), plain, text, machine.clock)
        self.texts = self.device._text, text
        self.worst, self.preempted, self.swapped = 0.0, 0, 0

    def run(self, plan: StepPlan, work: Work) -> int:
        self.device.run(plan, work)
        self.device.table.check(self.scheduler.manager)
        assert self.device.last is not None
        logits = self.device.last.logits
        # What comes back from the host was computed before: plain attention keeps it anyway.
        expected = self.plain.step(work).logits
        self.texts[1].chosen.copy_(self.texts[0].chosen)
        if logits.numel():
            error = float((logits - expected).abs().max())
            self.worst = max(self.worst, error if error == error else float("inf"))
        self.preempted += len(plan.preempted)
        self.swapped += plan.swap_in_bytes
        return 10**15


def run_beside(given: Setup, plain: StepAttention) -> Beside:
    """A run to its end."""
    found = Beside(given, plain)
    recorder = Recorder(given.trace, 1.0)
    free_run(serve(given.trace, found.scheduler, recorder), found.scheduler, found)
    return found
