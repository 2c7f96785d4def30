"""`python -m benchmarks.machine_code`: every shipped policy and more in both forms, as Markdown.

CPU time of the loop with its records as columns, both forms in turns in one process, the best of
some rounds. Setting up and compiling are left out; `seconds` are of one run.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.workload import OTHERS, POLICIES, hour, table, table_trace
from sim.cost.base import StepCost
from sim.run.driver import run_simulated
from sim.run.form import compiled_log
from sim.run.simulation import Setup, prepare, start
from workloads import read_trace

ROUNDS = 3
FURTHER = (
    "preallocation:reserve=pow2,allocator=buddy",
    "preallocation:reserve=oracle",
    "growing:step=256",
    "paging+top_k:mode=evict",
    "paging+fp8",
    "paging+int4",
)


class Timed(NamedTuple):
    what: str
    fast_us: float  # a request
    slow_us: float
    requests: int


def setups() -> Iterator[tuple[str, Setup]]:
    """What is measured, by name."""
    for policy in (*POLICIES, *OTHERS, *FURTHER):
        yield f"table: `{policy}`", table(policy)
    yield "hour: `paging`", hour()
    yield "hour: `paging+prefix`", hour("paging+prefix")
    yield "hour: `growing`", hour("growing")
    large = {"model": "llama-3.1-8b", "gpu": "h200", "policy": "paging"}
    yield "code: `paging`", prepare(read_trace("azure-2023-code"), **large)  # type: ignore[arg-type]
    mooncake = read_trace("mooncake-conversation")
    yield "mooncake: `paging+prefix`", prepare(mooncake, **{**large, "policy": "paging+prefix"})  # type: ignore[arg-type]
    few = {"max_num_seqs": 128, "max_num_batched_tokens": 4096, "max_model_len": 4096}
    trace = table_trace()
    narrow = {"model": "llama-2-7b", "gpu": "a100-80gb", "kv_cache_memory": 7300 * 16 * 524_288}
    both = {**few, **narrow, "policy": "paging"}
    yield "table: swapping", prepare(trace, **{**both, "preemption": "swap"})  # type: ignore[arg-type]
    for engine in ("vllm-0.19", "vllm-0.19:oldest_first=false"):
        yield f"table: `--engine {engine}`", prepare(trace, **{**both, "engine": engine})  # type: ignore[arg-type]
    windows = {"model": "gpt-oss-20b", "gpu": "h200", "kv_cache_memory": 2 << 30}
    for layers in ("reserved", "unified"):
        policy = f"paging:layers={layers}"
        yield f"table of gpt-oss-20b: `{policy}`", prepare(trace, **few, **windows, policy=policy)  # type: ignore[arg-type]
    measured = {"model": "llama-3.1-8b", "gpu": "rtx-4090", "cost": "table", "policy": "paging"}
    slow = table_trace(request_rate=2.0)
    yield "table at 2/s: kernel tables", prepare(slow, **few, **measured)  # type: ignore[arg-type]


def interpreted(setup: Setup, cost: StepCost) -> object:
    effects, _, recorder = start(setup)
    run_simulated(effects, cost, setup.fast_forward, setup.device.host_bytes_per_s)
    return recorder.log()


def _cpu_s(run: Callable[[Setup, StepCost], object], setup: Setup) -> float:
    cost = setup.cost()
    begin = time.process_time()
    run(setup, cost)
    return time.process_time() - begin


def measured(only: str = "") -> Iterator[Timed]:
    """One after another; `only` picks those whose name holds it."""
    for what, setup in setups():
        if only not in what:
            continue
        compiled_log(setup, setup.cost())  # compiles, where no earlier run did
        fast, slow = [], []
        for _ in range(ROUNDS):
            fast.append(_cpu_s(compiled_log, setup))
            if len(slow) < 2:
                slow.append(_cpu_s(interpreted, setup))
        n = len(setup.trace)
        yield Timed(what, 1e6 * min(fast) / n, 1e6 * min(slow) / n, n)


def main(only: str = "") -> None:
    print("| ratio | what | machine code, µs a request | interpreted |\n|---|---|---|---|")
    for it in measured(only):
        ratio = f"{it.slow_us / it.fast_us:.1f} × quicker"
        print(f"| {ratio} | {it.what} | {it.fast_us:.2f} | {it.slow_us:.1f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:2])
