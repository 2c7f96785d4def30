"""The executor decides as the simulator does: with predicted times its plan log is the same."""

import pytest

from executor.cache.table import Table, table_for
from executor.device import NullDevice
from executor.driver import free_run, lockstep
from executor.plan_log import Logged, expand, logged, single
from executor.work import Work
from sim.cost.roofline import Roofline
from sim.driver import run_simulated
from sim.engine import serve
from sim.plan import StepPlan
from sim.policy.base import Manager
from sim.record import Recorder
from sim.scheduler import Scheduler
from sim.simulation import Setup, prepare
from workloads import read_trace
from workloads.transform import first

POLICIES = (
    "paging:block_size=16",
    "paging:block_size=1",
    "paging:block_size=512,watermark=0.05",
    "preallocation",
    "sliding_window:window=256,sinks=4",
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
        kv_cache_memory_bytes=3 * 2**30,
    )


def engine(setup: Setup) -> tuple[Scheduler, Recorder]:
    return Scheduler(setup.policy.manager(setup.pool), setup.limits), Recorder(setup.trace, 1.0)


def simulated(setup: Setup, cost: Roofline) -> tuple[list[Logged], Recorder]:
    scheduler, recorder = engine(setup)
    log: list[Logged] = []
    run_simulated(logged(serve(setup.trace, scheduler, recorder), log), cost)
    return log, recorder


@pytest.mark.parametrize("batching", ["continuous", "static"])
@pytest.mark.parametrize("policy", POLICIES)
def test_plan_logs_are_equal(policy: str, batching: str) -> None:
    setup = azure_slice(policy, batching)
    cost = Roofline(setup.model, setup.device)
    log, predicted = simulated(setup, cost)
    steps = list(expand(log))
    assert len(steps) > len(log)

    scheduler, measured = engine(setup)
    table = table_for(scheduler.manager, getattr(setup.policy, "sinks", 0))
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


def test_slices_preempt() -> None:
    """Or the logs above would be equal for want of anything hard."""
    setup = azure_slice("paging:block_size=16")
    log, _ = simulated(setup, Roofline(setup.model, setup.device))
    assert any(entry.plan.preempted for entry in log)
