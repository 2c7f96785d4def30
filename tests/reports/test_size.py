"""A page's size follows from what it shows, not from how many requests were served.

REPORT_REQUESTS=1000000 makes it a million.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reports.build import render
from reports.load import load_runs
from tests.reports.synthetic import PAGING, write_folder

REQUESTS = int(os.environ.get("REPORT_REQUESTS", 60_000))


def repeated(folder: Path, into: Path, times: int) -> Path:
    """The run so often in a row, one after the other: all tables, and what run.json counts."""
    into.mkdir()
    info = json.loads((folder / "run.json").read_text())
    span = next(m["value"] for m in info["metrics"] if m["name"] == "makespan_s") + 60
    for name in ("requests", "steps", "timeline"):
        table = pq.read_table(folder / f"{name}.parquet")
        shift = np.repeat(np.arange(times) * span, len(table))
        columns = {}
        for column in table.column_names:
            values = table[column].to_numpy()
            if column == "request_id":
                columns[column] = np.arange(times * len(table))
            else:
                tiled = np.tile(values, times)
                columns[column] = tiled + shift if column.endswith("_s") else tiled
        pq.write_table(pa.table(columns), into / f"{name}.parquet")
    info["trace"]["rows"] *= times
    (into / "run.json").write_text(json.dumps(info))
    return into


def test_many_requests_make_a_page_of_the_same_size(tmp_path: Path) -> None:
    few = write_folder(tmp_path / "few", PAGING)
    many = repeated(few, tmp_path / "many", REQUESTS // PAGING.requests)
    sizes = [len(render(load_runs([folder]))) for folder in (few, many)]
    assert sizes[1] < 1.05 * sizes[0]
    assert sizes[1] < 2 * 10**6
