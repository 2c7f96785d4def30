"""The same cases through kvtwin's scheduler, loop and policies; a step takes a second."""

from dataclasses import replace

import numpy as np

from sim.engine.ahead import serve_ahead
from sim.engine.closed_loop import ClosedLoop
from sim.engine.limits import Limits, Rules
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.model.layers import LayerGroup
from sim.model.states import StateGroup, StatePart
from sim.plan import AS_PER_S, Done, Sleep, StepPlan
from sim.policy.group_tables import layers_a_page
from sim.policy.manager import Manager, Pool, Stored
from sim.policy.registry import parse_policy
from tests.conformance.case import Case, Step
from workloads.schema import PrefixBlocks, Provenance, Trace
from workloads.transform import sample


class Watched(Scheduler):
    """A scheduler that notes down each step when it is planned."""

    def __init__(self, manager: Manager, limits: Limits) -> None:
        super().__init__(manager, limits)
        self.now = 0
        self.noted: list[Step] = []
        self.evicted = 0
        cache = getattr(manager, "cache", None)
        if cache is not None:
            self._evict = cache.evict
            cache.evict = self._counted

    def _counted(self, blocks: int) -> object:
        self.evicted += blocks
        return self._evict(blocks)

    def schedule(self) -> StepPlan | None:
        plan = super().schedule()
        if plan is None:
            return None
        tokens = {chunk.request: chunk.tokens for chunk in plan.chunks}
        starts = {chunk.request: chunk.start for chunk in plan.chunks}
        decoding = [s.index for s in self.running.values() if s.joined_tick >= 0]
        assert len(decoding) == plan.decodes
        self.noted.append(
            Step(
                self.now,
                tokens | dict.fromkeys(decoding, 1),
                {request: starts[request] for request in plan.admitted},
                sorted(plan.preempted),
                sorted(plan.finished),
                self.manager.free,  # type: ignore[attr-defined]
                self.evicted,
            )
        )
        return plan


def run(case: Case) -> list[Step]:
    """All steps, one by one."""
    scheduler = Watched(manager(case), limits(case))
    given = trace(case)
    start = case.requests[0].arrival
    scheduler.now = start
    loop = serve_ahead if case.ahead else serve
    closed = ClosedLoop(case.users) if case.users else None
    effects = loop(given, scheduler, Recorder(given, 1e6), None, closed)
    effect, now = next(effects, None), 0
    while effect is not None:
        if isinstance(effect, Sleep):
            now = effect.until_as
            done = Done(now)
        else:
            now += AS_PER_S
            done = Done(now, 1, AS_PER_S, 0)
        scheduler.now = start + now // AS_PER_S
        try:
            effect = effects.send(done)
        except StopIteration:
            break
    return scheduler.noted


def manager(case: Case) -> Manager:
    """The policy's manager over a pool of as many blocks."""
    kind = "capped" if case.windows != (None,) else "reserved"
    policy = f"paging:block_size={case.block_size},watermark={case.watermark},layers={kind}"
    pool = replace(layers(case), null_blocks=1)
    widest = max((one.key + one.value for one in pool.stored), default=0)
    if case.sparse:
        page = case.block_size * pool.token_bytes
    else:
        page = layers_a_page([n for n in (*case.layers, case.states) if n])
        page *= case.block_size * widest or case.state_bytes
    flight = case.max_num_batched_tokens * (1 + case.ahead)
    pool = replace(pool, capacity_bytes=case.blocks * page, in_flight_tokens=flight)
    return parse_policy(policy + "+prefix" * case.prefix).manager(pool)


def layers(case: Case) -> Pool:
    """A pool without memory that knows what the case's layers keep."""
    if case.sparse:
        (count,) = case.layers
        latent = LayerGroup(count, "sparse_mla", 1, 576, 0, latent_dim=512, selects=64)
        indexer = LayerGroup(count, "indexer", 1, 132, 0, own_bytes=132, own_side=4)
        pool = Pool(0, 0, case.max_model_len, groups=(latent, indexer))
        return pool.storing((Stored(1152, 0), Stored(132, 0, 4)))
    groups = tuple(
        LayerGroup(count, "full" if window is None else "window", 1, 1, 1, window)
        for count, window in zip(case.layers, case.windows, strict=True)
        if count
    )
    states: tuple[StateGroup, ...] = ()
    if case.states:
        states = (StateGroup(case.states, "mamba2", (StatePart("state", case.state_bytes, 1, 1),)),)
    pool = Pool(0, 0, case.max_model_len, groups=groups, states=states)
    return pool.storing((Stored(2, 2),) * len(groups))


def limits(case: Case) -> Limits:
    """The case's limits and vLLM's rules."""
    return Limits(
        case.max_num_seqs,
        case.max_num_batched_tokens,
        case.max_model_len,
        rules=Rules(async_scheduling=case.ahead),
        long_prefill_token_threshold=case.long_prefill,
    )


def trace(case: Case) -> Trace:
    """The requests as a trace with published prefixes."""
    ids = case.published()
    prefix = PrefixBlocks(
        case.unit,
        np.cumsum([0, *map(len, ids)]),
        np.array([name for one in ids for name in one], dtype=np.int64),
    )
    rows = case.requests
    made = Trace(
        "case",
        np.array([float(row.arrival - rows[0].arrival) for row in rows]),
        np.array([row.prompt for row in rows]),
        np.array([row.output for row in rows]),
        Provenance("made", len(rows)),
        prefix if case.prefix else None,
    )
    return sample(made, case.samples)
