"""`python -m benchmarks.flat [REQUESTS ...]`: long runs and what they take, as Markdown.

Lengths of the table, rate and device of the hour, paging; 1,000,000 and 10,000,000 requests unless
others are given. Each command has a process of its own. The run's files are checked to be complete;
then the trace is described and the run's report is written.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import growth
from benchmarks.process import Usage, kvtwin, measure

REQUESTS = (1_000_000, 10_000_000)
MAKE = """
import sys
from pathlib import Path
from benchmarks.commands import growth
growth(Path(sys.argv[1]), int(sys.argv[2]))
"""
"""Traces are made in a process that ends: this one stays small."""


def main(requests: list[int]) -> None:
    print("| requests | command | CPU s | µs a request | peak MB |\n|---|---|---|---|---|")
    for count in requests:
        with tempfile.TemporaryDirectory() as folder:
            for what, used in measured(Path(folder), count):
                each = f"{1e6 * used.cpu_s / count:.1f}"
                row = (f"{count:,}", what, f"{used.cpu_s:.1f}", each, f"{used.peak_mb:.0f}")
                print(f"| {' | '.join(row)} |", flush=True)


def measured(folder: Path, requests: int) -> Iterator[tuple[str, Usage]]:
    """The run, a look at its trace, its report."""
    measure([sys.executable, "-c", MAKE, str(folder), str(requests)])
    run = growth(folder, requests)
    measure(growth(folder, 20_000), compiled=True)  # leaves the machine code for the others
    yield "`kvtwin simulate`", measure(run)
    check(folder / "runs" / "paging", requests)
    trace = next(word for word in run if word.endswith(f"{requests}-30.0.parquet"))
    yield "`kvtwin traces describe`", measure(kvtwin("traces", "describe", trace))
    page = str(folder / "report.html")
    yield "`kvtwin report`", measure(kvtwin("report", str(folder / "runs"), "-o", page))


def check(run: Path, requests: int) -> None:
    """Every request and every step is in the files, as run.json says."""
    import pyarrow.parquet as pq

    metrics = json.loads((run / "run.json").read_text())["metrics"]
    told = {one["name"]: one["value"] for one in metrics}
    assert pq.ParquetFile(run / "requests.parquet").metadata.num_rows == requests
    assert told["requests"] == requests
    steps = 0
    for batch in pq.ParquetFile(run / "steps.parquet").iter_batches(columns=["steps"]):
        steps += sum(batch.column(0).to_pylist())
    assert steps == told["steps"]


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or list(REQUESTS))
