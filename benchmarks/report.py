"""`python -m benchmarks.report`: the table of docs/performance.md, ratios first, as Markdown.

CPU seconds, medians of interleaved runs: cores are shared, and waiting for one is not work. The
seven policies are in wall-clock time, for that is what a second process saves.
"""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine_code
from benchmarks.commands import growth, help_command, seven_policies, table_command
from benchmarks.process import measure, median, processor
from benchmarks.simpy_floor import wait_for
from benchmarks.workload import OTHERS, POLICIES, hour, loop, table
from sim.run.simulation import Setup

ROUNDS = 5


class Row(NamedTuple):
    ratio: str
    what: str
    measured: str
    target: str = ""


class Loop(NamedTuple):
    """Medians of one set-up."""

    us: float  # CPU a request
    floor: float  # multiple of SimPy's own time for as many events
    events: float  # a request


def main() -> None:
    print(f"{date.today()}, {processor()}, {os.cpu_count()} cores, {platform.python_version()}")
    print("\n| ratio | what | measured | target |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in chain(_loops(), _machine_code(), _processes(Path(folder))):
            print("| " + " | ".join(row) + " |", flush=True)


def _cpu_s(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _measure(setups: dict[str, Setup]) -> dict[str, Loop]:
    """The set-ups in turns, so that whatever else the machine does falls on all of them."""
    events = {name: len(loop(s).log().steps["step"]) for name, s in setups.items()}
    loops: dict[str, list[float]] = {name: [] for name in setups}
    floors: dict[str, list[float]] = {name: [] for name in setups}
    for _ in range(ROUNDS):
        for name, setup in setups.items():
            loops[name].append(_cpu_s(lambda setup=setup: loop(setup)))  # type: ignore[misc]
            floors[name].append(_cpu_s(lambda n=events[name]: wait_for(n)))  # type: ignore[misc]
    result = {}
    for name, setup in setups.items():
        took, requests = statistics.median(loops[name]), len(setup.trace)
        floor = took / statistics.median(floors[name])
        result[name] = Loop(1e6 * took / requests, floor, events[name] / requests)
    return result


def _loops() -> Iterator[Row]:
    policies = (*POLICIES, *OTHERS)
    wide = _measure({policy: hour(policy) for policy in policies})
    little = _measure({policy: table(policy) for policy in policies})
    for title, measured in (("hour", wide), ("table", little)):
        paging = measured["paging"]
        for policy, it in measured.items():
            text = f"{it.us:.1f} µs a request, {it.events:.2f} events, {it.floor:.1f} × SimPy"
            target = "at most 20 µs, goal 10" if policy == "paging" else "at most 3 × paging"
            yield Row(f"{it.us / paging.us:.2f} × paging", f"{title}: `{policy}`", text, target)
    batches = (16, 64, 256)
    by_batch = _measure({str(batch): hour(max_num_seqs=batch) for batch in batches})
    for name, it in by_batch.items():
        ratio = f"{it.us / by_batch['256'].us:.2f} × batch 256"
        yield Row(ratio, f"hour: paging, batch {name}", f"{it.us:.1f} µs a request")
    single = _measure({"single": hour(fast_forward=False), "fast": hour()})
    ratio = f"{single['single'].us / single['fast'].us:.2f} × fast-forward"
    yield Row(ratio, "hour: paging, single steps", f"{single['single'].us:.1f} µs a request")


def _machine_code() -> Iterator[Row]:
    for it in machine_code.measured():
        text = f"{it.fast_us:.2f} µs a request against {it.slow_us:.1f}"
        yield Row(f"{it.slow_us / it.fast_us:.1f} × quicker", f"{it.what} as machine code", text)


def _processes(folder: Path) -> Iterator[Row]:
    start = median([measure(help_command()) for _ in range(ROUNDS)])
    yield Row("", "`kvtwin --help`", f"{start.cpu_s:.2f} s, {start.peak_mb:.0f} MB")
    whole = median([measure(table_command(folder)) for _ in range(ROUNDS)])
    text = f"{whole.cpu_s:.2f} s ({whole.wall_s:.2f} s wall), {whole.peak_mb:.0f} MB"
    ratio = f"{whole.cpu_s / start.cpu_s:.1f} × --help"
    yield Row(ratio, "table: whole process, records written", text, "at most 0.7 s")
    small = 0.0
    for requests in (10_000, 100_000, 1_000_000):
        command = growth(folder, requests)
        it = median([measure(command) for _ in range(1 if requests == 1_000_000 else ROUNDS)])
        us = 1e6 * it.cpu_s / requests
        small = small or us
        text = f"{it.cpu_s:.2f} s ({it.wall_s:.2f} s wall), {us:.1f} µs a request"
        text += f", {it.peak_mb:.0f} MB"
        target = "at most 20 s, goal 10; 1.2 GiB" if requests == 1_000_000 else ""
        ratio = f"{us / small:.2f} × 10,000"
        yield Row(ratio, f"growth: {requests:,} requests, whole process", text, target)
    loops = _measure({str(n): table(requests=n) for n in (10_000, 100_000)})
    ratio = f"{loops['100000'].us / loops['10000'].us:.2f} × 10,000"
    yield Row(ratio, "table: loop, 100,000 requests", f"{loops['100000'].us:.1f} µs a request")
    seven = {
        jobs: median([measure(seven_policies(folder, jobs)) for _ in range(3)]) for jobs in (1, 2)
    }
    ratio = f"{seven[1].wall_s / seven[2].wall_s:.2f} × quicker"
    text = f"{seven[2].wall_s:.2f} s wall against {seven[1].wall_s:.2f}"
    yield Row(ratio, "hour: seven policies, 2 processes against 1", text)


if __name__ == "__main__":
    main()
