"""Random histories under all laws: a few here, many by `make fuzz`."""

from sim.policy.registry import BUILT_IN
from tests.sim.histories.again import metrics_are_those_of_the_tables
from tests.sim.histories.changed import CHANGED
from tests.sim.histories.fuzz import Tally, check
from tests.sim.histories.kept import KEPT
from tests.sim.histories.made import COSTS, ENGINES


def test_no_law_is_broken() -> None:
    """Every policy, engine, cost model and law is among them."""
    tally = Tally()
    for number in range(150):
        check(7, number, tally)
    assert not tally.broken
    assert {*BUILT_IN, *COSTS, *ENGINES} <= set(tally.seen)
    laws = {law.__name__ for law in (*KEPT, *CHANGED, metrics_are_those_of_the_tables)}
    assert laws == {law for law, times in tally.laws.items() if times}
