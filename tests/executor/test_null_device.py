"""The executor decides as the simulator does: with predicted times its plan log is the same."""

from dataclasses import replace

import numpy as np
import pytest

from executor.cache.choice import table_for
from executor.cache.table import Table
from executor.device.base import NullDevice
from executor.driver import free_run, lockstep
from executor.plan_log import Logged, expand, logged, single
from executor.work import Work
from sim.cost.roofline import Roofline
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.plan import StepPlan
from sim.policy.manager import Manager
from sim.run.driver import run_simulated
from sim.run.simulation import Setup, prepare, start
from workloads import read_trace
from workloads.made import make_workload
from workloads.schema import PrefixBlocks
from workloads.transform import first

POLICIES = (
    "paging:block_size=16",
    "paging:block_size=1",
    "paging:block_size=512,watermark=0.05",
    "preallocation",
    "sliding_window:window=256,sinks=4",
    "chunked:chunk_tokens=128",
    "paging:block_size=16+sliding_window:window=250,sinks=4",
    "paging:block_size=16+prefix",
    "paging:block_size=16+prefix:reuse=oldest",
    "paging:block_size=16+top_k:k=128,page=16",
    "paging:block_size=16+int8:scale=fp16",
    "preallocation:reserve=pow2",
    "preallocation:reserve=oracle",
    "preallocation:reserve=pow2,allocator=buddy",
    "growing:start=64",
    "growing:start=64,step=128",
    "growing:start=64+sliding_window:window=250,sinks=4",
    "virtual",
    "virtual:page_kib=2048+sliding_window:window=250,sinks=4",
    "paging:block_size=16+top_k:k=200,mode=evict",
    "preallocation+top_k:k=200,mode=evict",
    "growing:start=64+top_k:k=200,mode=evict",
)


class FollowedDevice(NullDevice):
    """A null device whose table takes and frees ids, checked against the manager's counts."""

    def __init__(self, cost: Roofline, table: Table, manager: Manager) -> None:
        super().__init__(cost)
        self.table, self.manager = table, manager

    def run(self, plan: StepPlan, work: Work) -> int:
        self.table.follow(work)
        if plan.step % 16 == 0 or work.released:
            self.table.check(self.manager)
        return super().run(plan, work)


def azure_slice(policy: str, batching: str = "continuous") -> Setup:
    """40 requests at four times the trace's rate, in a cache that holds few of them."""
    trace = first(read_trace("azure-2023-conv"), 40)
    return prepare(
        trace,
        model="llama-2-7b",
        gpu="a100-40gb",
        policy=policy,
        request_rate=20.0,
        max_num_seqs=16,
        max_num_batched_tokens=512,
        max_model_len=2048,
        batching=batching,
        kv_cache_memory=3 * 2**30,
    )


def engine(setup: Setup) -> tuple[Scheduler, Recorder]:
    return Scheduler(setup.policy.manager(setup.pool), setup.limits), Recorder(setup.trace, 1.0)


def simulated(setup: Setup, cost: Roofline) -> tuple[list[Logged], Recorder]:
    scheduler, recorder = engine(setup)
    log: list[Logged] = []
    run_simulated(logged(serve(setup.trace, scheduler, recorder), log), cost)
    return log, recorder


def with_shared_prompts(setup: Setup) -> Setup:
    """Three system prompts of up to 384 tokens, as if the trace had published its blocks.

    In half of the memory, because sharing needs less.
    """
    blocks = [-(-tokens // 64) for tokens in setup.trace.prompt_tokens.tolist()]
    ids = [
        request % 3 * 10 + block if block < 6 else 1000 * request + block
        for request, count in enumerate(blocks)
        for block in range(count)
    ]
    offsets = np.cumsum([0, *blocks])
    prefix = PrefixBlocks(64, offsets, np.array(ids))
    pool = replace(setup.pool, capacity_bytes=setup.pool.capacity_bytes // 2)
    return replace(setup, trace=replace(setup.trace, prefix=prefix), pool=pool)


@pytest.mark.parametrize("batching", ["continuous", "static"])
@pytest.mark.parametrize("policy", POLICIES)
def test_plan_logs_are_equal(policy: str, batching: str) -> None:
    setup = azure_slice(policy, batching)
    if "prefix" in policy:
        setup = with_shared_prompts(setup)
    cost = Roofline(setup.model, setup.device)
    log, predicted = simulated(setup, cost)
    steps = list(expand(log))
    assert len(steps) > len(log)

    scheduler, measured = engine(setup)
    table = table_for(scheduler.manager, setup.policy)
    device = FollowedDevice(cost, table, scheduler.manager)
    own: list[Logged] = []
    free_run(logged(serve(setup.trace, scheduler, measured), own), scheduler, device)
    for mine, theirs in zip(own, steps, strict=True):
        assert mine._replace(plan=single(mine.plan)) == theirs
    for name, column in predicted.log().requests.items():
        assert column.tobytes() == measured.log().requests[name].tobytes(), name


@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_replays_the_log(policy: str) -> None:
    setup = azure_slice(policy)
    cost = Roofline(setup.model, setup.device)
    log, predicted = simulated(setup, cost)
    scheduler, recorder = engine(setup)
    measured = lockstep(
        serve(setup.trace, scheduler, recorder), scheduler, NullDevice(cost), expand(log)
    )
    assert measured == [step.first_as for step in expand(log)]
    assert recorder.log().end_s == predicted.log().end_s


def test_lockstep_refuses_another_runs_log() -> None:
    setup = azure_slice("paging:block_size=16")
    cost = Roofline(setup.model, setup.device)
    log, _ = simulated(azure_slice("preallocation"), cost)
    scheduler, recorder = engine(setup)
    with pytest.raises(AssertionError):
        lockstep(serve(setup.trace, scheduler, recorder), scheduler, NullDevice(cost), expand(log))


def test_slices_are_hard() -> None:
    """Or the logs above would be equal for want of anything that differs."""
    setup = azure_slice("paging:block_size=16")
    log, _ = simulated(setup, Roofline(setup.model, setup.device))
    assert any(entry.plan.preempted for entry in log)
    setup = with_shared_prompts(azure_slice("paging:block_size=16+prefix"))
    log, recorder = simulated(setup, Roofline(setup.model, setup.device))
    assert any(entry.plan.preempted for entry in log)
    assert recorder.log().requests["cached_tokens"].sum() > 1000


def conversations(**load: object) -> Setup:
    """Chats of four turns on average, their prompts in common blocks, in a cache that evicts."""
    return prepare(
        make_workload("chat", 12, 2.0, seed=3),
        model="llama-2-7b",
        gpu="a100-40gb",
        policy="paging:block_size=16+prefix",
        max_num_seqs=4,
        max_num_batched_tokens=512,
        max_model_len=4096,
        kv_cache_memory=2 * 2**30,
        **load,
    )


@pytest.mark.parametrize(
    "load",
    [{}, {"users": 3, "think_time": "exponential:2s", "seed": 5}, {"replay": "stamps"}],
    ids=["answers", "users", "stamps"],
)
def test_a_free_run_follows_the_same_sessions(load: dict[str, object]) -> None:
    """Who waits for whom, and users who take sessions whole: asked at the same attosecond as the
    simulator says, by the same plans; and in lockstep."""
    setup = conversations(**load)
    cost = Roofline(setup.model, setup.device)
    foreseen = start(setup)
    log: list[Logged] = []
    run_simulated(logged(foreseen.effects, log), cost)
    steps = list(expand(log))

    executed = start(setup)
    table = table_for(executed.scheduler.manager, setup.policy)
    device = FollowedDevice(cost, table, executed.scheduler.manager)
    own: list[Logged] = []
    free_run(logged(executed.effects, own), executed.scheduler, device)
    assert [mine._replace(plan=single(mine.plan)) for mine in own] == steps
    expected, found = foreseen.recorder.log().requests, executed.recorder.log().requests
    for name, column in expected.items():
        assert column.tobytes() == found[name].tobytes(), name

    replayed = start(setup)
    lockstep(replayed.effects, replayed.scheduler, NullDevice(cost), expand(log))
    again = replayed.recorder.log().requests
    assert again["finish_s"].tobytes() == found["finish_s"].tobytes()
    assert setup.trace.turns is not None or load == {"replay": "stamps"}


def test_sessions_are_answered_before_they_go_on() -> None:
    """On a device that is half as fast as predicted: think times are kept, as in the simulator."""
    setup = conversations()
    turns = setup.trace.turns
    assert turns is not None
    executed = start(setup)

    class Slow(NullDevice):
        def run(self, plan: StepPlan, work: Work) -> int:
            return 2 * super().run(plan, work)

    free_run(executed.effects, executed.scheduler, Slow(Roofline(setup.model, setup.device)))
    requests = executed.recorder.log().requests
    refused = np.isnan(requests["finish_s"])  # too long for the engine: answered at once
    answered = np.where(refused, requests["arrival_s"], requests["finish_s"])
    for row in range(len(setup.trace)):
        for before in turns.after[turns.offsets[row] : turns.offsets[row + 1]].tolist():
            pause = requests["arrival_s"][row] - answered[before]
            assert pause == pytest.approx(turns.delay_s[row], abs=1e-9)
