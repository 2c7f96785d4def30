"""Costs are looked up by what a step reads: tables must read as much as the simulator says."""

import pytest

from executor.cache.choice import table_for
from executor.cache.table import Table
from executor.device.base import NullDevice
from executor.driver import free_run
from executor.work import Work
from sim.cost.roofline import FixedStep
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.plan import StepPlan
from sim.run.simulation import Setup
from tests.executor.test_layer_windows import setup as windowed
from tests.executor.test_policies_agree import setup


class Reading(NullDevice):
    """Compares every plan that decodes."""

    def __init__(self, table: Table, token_bytes: int) -> None:
        super().__init__(FixedStep(0.001, "test"))
        self._table, self._token_bytes = table, token_bytes
        self.decodes, self.shares = 0, set[float]()

    def run(self, plan: StepPlan, work: Work) -> int:
        lengths = [length for _, length in work.decodes]
        read = sum(self._table.read_tokens(length, self._token_bytes) for length in lengths)
        # Each sequence's is rounded to whole tokens.
        assert abs(plan.read_bytes / self._token_bytes - read) <= len(lengths)
        self.decodes += len(lengths)
        self.shares |= {read / sum(lengths)} if lengths else set()
        return super().run(plan, work)


@pytest.mark.parametrize(
    ("given", "all_read"),
    [
        (setup("paging:block_size=8"), True),
        (setup("virtual"), True),
        (setup("paging:block_size=8+sliding_window:window=26,sinks=4"), False),
        (setup("paging:block_size=8+top_k:k=24,mode=evict"), False),
        (setup("paging:block_size=8+top_k:k=24,page=8"), False),
        (windowed("paging:block_size=8,layers=unified"), False),
        (windowed("paging:block_size=8,layers=capped"), False),
    ],
    ids=lambda one: one.label if isinstance(one, Setup) else "",
)
def test_tables_read_what_plans_say(given: Setup, all_read: bool) -> None:
    manager = given.policy.manager(given.pool)
    device = Reading(table_for(manager, given.policy), manager.pool.token_bytes)
    scheduler, recorder = Scheduler(manager, given.limits), Recorder(given.trace, 1.0)
    free_run(serve(given.trace, scheduler, recorder), scheduler, device)
    assert device.decodes > 50
    assert (device.shares == {1.0}) == all_read
