"""The commands whose whole processes are measured; traces are made here, before the clock runs."""

from pathlib import Path

from benchmarks.process import kvtwin
from benchmarks.workload import AZURE, BLOCK_BYTES, POLICIES, WIDE_RATE, table_trace
from workloads.write import write_trace

TABLE_OPTIONS = (
    *("--model", "llama-2-7b", "--gpu", "a100-80gb"),
    *("--max-num-seqs", "128", "--max-num-batched-tokens", "4096"),
    *("--kv-cache-memory", f"{7300 * BLOCK_BYTES}B"),
)
WIDE_OPTIONS = (
    *("--model", "llama-3-8b", "--gpu", "h200", "--max-num-batched-tokens", "8192"),
    *("--max-num-seqs", "256"),
)


def help_command() -> list[str]:
    """Start-up alone."""
    return kvtwin("--help")


def table_command(folder: Path) -> list[str]:
    """10,000 requests of the table."""
    return _simulate(folder, 10_000, 6.45, TABLE_OPTIONS)


def growth(folder: Path, requests: int) -> list[str]:
    """The same lengths at the rate and on the device that keep a batch near 256."""
    return _simulate(folder, requests, WIDE_RATE, WIDE_OPTIONS)


def seven_policies(folder: Path, jobs: int) -> list[str]:
    """The Azure hour under all policies, in so many processes."""
    options = [part for policy in POLICIES for part in ("--policy", policy)]
    where = ("--no-report", "--json", "-o", str(folder / "seven"), "--jobs", str(jobs))
    rate = ("--request-rate", str(WIDE_RATE))
    return kvtwin("simulate", AZURE, *WIDE_OPTIONS, *rate, *options, *where)


def _simulate(folder: Path, requests: int, rate: float, options: tuple[str, ...]) -> list[str]:
    trace = folder / f"{requests}-{rate}.parquet"
    if not trace.exists():
        write_trace(table_trace(requests, rate), trace)
    where = ("--policy", "paging", "--no-report", "--json", "-o", str(folder / "runs"))
    return kvtwin("simulate", str(trace), *options, *where)
