"""`make bench`: whole processes, start-up and files included."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.commands import growth, help_command, seven_policies, table_command
from benchmarks.process import Usage, measure


def timed(benchmark: BenchmarkFixture, command: list[str], rounds: int = 5) -> None:
    runs: list[Usage] = []
    run: Callable[..., None] = benchmark.pedantic
    run(lambda: runs.append(measure(command)), rounds=rounds)
    benchmark.extra_info["cpu_s"] = min(run.cpu_s for run in runs)
    benchmark.extra_info["peak_mb"] = max(run.peak_mb for run in runs)


def test_help(benchmark: BenchmarkFixture) -> None:
    timed(benchmark, help_command())


def test_table(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    timed(benchmark, table_command(tmp_path))


@pytest.mark.parametrize("requests", [10_000, 100_000, 1_000_000])
def test_growth(benchmark: BenchmarkFixture, tmp_path: Path, requests: int) -> None:
    timed(benchmark, growth(tmp_path, requests), rounds=1 if requests == 1_000_000 else 3)


@pytest.mark.parametrize("jobs", [1, 2])
def test_seven_policies(benchmark: BenchmarkFixture, tmp_path: Path, jobs: int) -> None:
    timed(benchmark, seven_policies(tmp_path, jobs), rounds=3)
