"""What one step asks of a device, request by request: the plan with its batch spelled out."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.engine.scheduler import Scheduler
from sim.engine.swap import Moved
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
    swapped_out: tuple[Moved, ...] = ()  # to the host, before the released ones are given back
    swapped_in: tuple[Moved, ...] = ()  # from it, once all have their memory

    @property
    def decoding(self) -> tuple[list[int], NDArray[np.int64]]:
        """The decodes' requests, and the lengths of their contexts."""
        requests = [request for request, _ in self.decodes]
        lengths = [length for _, length in self.decodes]
        return requests, np.array(lengths, dtype=np.int64)

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """(request, first position, the one behind the last) of all tokens, in order."""
        spans = [(c.request, c.start, c.start + c.tokens) for c in self.chunks]
        return spans + [(request, length - 1, length) for request, length in self.decodes]

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
    released = (*plan.finished, *plan.preempted)
    if not plan.swap_out_bytes and not plan.swap_in_bytes:
        return Work(released, plan.chunks, decodes)
    out, back = scheduler.swap.under_way
    return Work(released, plan.chunks, decodes, tuple(out), tuple(back))
