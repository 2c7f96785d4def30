"""`make bench`: the loop by policy, batch and trace, SimPy's floor beside it."""

import time
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.simpy_floor import wait_for
from benchmarks.workload import OTHERS, POLICIES, hour, loop, table
from sim.run.simulation import Setup, prepare
from workloads import read_trace

Timed = Callable[[Setup], None]


@pytest.fixture
def timed(benchmark: BenchmarkFixture) -> Timed:
    """Time the loop; microseconds a request and multiples of SimPy go to `extra_info`."""

    def run(setup: Setup) -> None:
        recorder = benchmark.pedantic(loop, (setup,), rounds=5, warmup_rounds=1)  # type: ignore[no-untyped-call]
        requests, events = len(setup.trace), len(recorder.log().steps["step"])
        floors = []
        for _ in range(5):
            start = time.process_time()
            wait_for(events)
            floors.append(time.process_time() - start)
        if benchmark.stats is None:  # --benchmark-disable
            return
        best = benchmark.stats["min"]
        benchmark.extra_info |= {
            "us_per_request": round(1e6 * best / requests, 2),
            "events_per_request": round(events / requests, 2),
            "multiple_of_simpy": round(best / min(floors), 1),
        }

    return run


@pytest.mark.parametrize("policy", [*POLICIES, *OTHERS])
def test_policy(timed: Timed, policy: str) -> None:
    timed(hour(policy))


@pytest.mark.parametrize("policy", [*POLICIES, *OTHERS])
def test_policy_with_little_memory(timed: Timed, policy: str) -> None:
    """Paging preempts a request in ten here."""
    timed(table(policy))


@pytest.mark.parametrize("batch", [16, 64, 256])
def test_batch(timed: Timed, batch: int) -> None:
    timed(hour(max_num_seqs=batch))


@pytest.mark.parametrize("name", ["azure-2023-conv", "azure-2023-code", "mooncake-conversation"])
def test_trace(timed: Timed, name: str) -> None:
    timed(prepare(read_trace(name), model="llama-3.1-8b", gpu="h200", policy="paging"))


def test_single_steps(timed: Timed) -> None:
    """The oracle: what fast-forward saves."""
    timed(hour(fast_forward=False))
