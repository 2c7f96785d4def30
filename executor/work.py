"""What one step asks of a device, request by request: the plan with its batch spelled out."""

from typing import NamedTuple

from sim.engine.scheduler import Scheduler
from sim.plan import Chunk, StepPlan


class Decode(NamedTuple):
    """A request that writes one token in this step."""

    request: int
    length: int  # tokens of its context, the new one included


class Work(NamedTuple):
    """One step. Its tokens are those of the chunks, then one of each decode, in this order."""

    released: tuple[int, ...]  # requests whose memory is given back before the step
    chunks: tuple[Chunk, ...]
    decodes: tuple[Decode, ...]

    @property
    def tokens(self) -> int:
        """Tokens whose KV the step writes."""
        return sum(chunk.tokens for chunk in self.chunks) + len(self.decodes)


def work_of(plan: StepPlan, scheduler: Scheduler) -> Work:
    """The work of a plan that the scheduler has just made: its first repetition."""
    tick = scheduler.manager.tick
    decodes = tuple(
        Decode(seq.index, seq.stored + tick - seq.joined_tick)
        for seq in scheduler.running.values()
        if seq.joined_tick >= 0
    )
    assert len(decodes) == plan.decodes
    return Work((*plan.finished, *plan.preempted), plan.chunks, decodes)
