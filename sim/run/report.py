"""Runs in memory, and folders of earlier ones, in one HTML report."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.build import write_report
from sim.run.folder import write_run

if TYPE_CHECKING:
    from sim.run.simulation import Run


def report_runs(runs: "Sequence[Run | Path]", out: Path) -> Path:
    """Write the report to `out`, which is returned. Raises InputError as `write_report` does."""
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
