"""Runs in memory, and folders of earlier ones, in one HTML report."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.build import write_report
from sim.run.folder import write_run
from workloads.given import plain

if TYPE_CHECKING:
    from sim.run.simulation import Run


def report_runs(runs: "Sequence[Run | Path]", out: str | Path) -> Path:
    """Write the report to `out`, which is returned. Raises InputError as `write_report` does."""
    out = Path(plain("path", out, str | Path))
    with tempfile.TemporaryDirectory() as folder:
        places = []
        for i, run in enumerate(runs):
            if isinstance(run, Path):
                places.append(run)
                continue
            place = Path(folder) / str(i)
            place.mkdir()
            write_run(run, place, "")
            places.append(place)
        return write_report(places, out)
