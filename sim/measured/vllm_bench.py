"""A run as `vllm bench serve --save-result --save-detailed` records it: one JSON file.

The client's view: seconds of its own clock from sending a request to its tokens, so latencies
include the way there and back. It holds no time series and doesn't tell the engine's options.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from sim.measured.run import SERIES, Measured
from workloads.errors import InputError
from workloads.schema import Floats, Ints, Provenance, Trace

DETAILS = ("input_lens", "output_lens", "ttfts", "itls", "start_times")


def read_bench(file: Path) -> Measured:
    """Requests in order of sending. Failed ones, and those without a token, are left out.

    Raises InputError naming file and field.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"{file}: {error}, expected JSON") from None
    rows = _rows(file, content if isinstance(content, dict) else {})
    good = [i for i, row in enumerate(rows) if not row["error"] and row["output_lens"] > 0]
    kept = [rows[i] for i in good]
    if not kept:
        raise InputError(f"{file}: no request got a token")
    start = np.array([row["start_times"] for row in kept])
    order = np.argsort(start, kind="stable")
    start = start[order] - start.min()
    first = start + np.array([row["ttfts"] for row in kept])[order]
    last = first + np.array([sum(row["itls"]) for row in kept])[order]
    dropped = {"failed or without a token": len(rows) - len(kept)} if len(kept) < len(rows) else {}
    trace = Trace(
        file.stem,
        start,
        _lengths(file, kept, "input_lens")[order],
        _lengths(file, kept, "output_lens")[order],
        Provenance(str(file), len(rows), dropped),
    )
    series: dict[str, Floats] = {name: np.empty(0) for name in SERIES}
    meta = {key: content[key] for key in ("max_concurrency",) if content.get(key) is not None}
    if "model_id" in content:
        meta["model"] = content["model_id"]
    return Measured(file.stem, trace, first, last, series, meta, np.array(good)[order])


def _rows(file: Path, content: dict[str, Any]) -> list[dict[str, Any]]:
    missing = [name for name in DETAILS if not isinstance(content.get(name), list)]
    if missing:
        raise InputError(
            f"{file}: lacks {', '.join(missing)}; expected what "
            "vllm bench serve --save-result --save-detailed writes"
        )
    columns = {name: content[name] for name in DETAILS}
    columns["error"] = content.get("errors") or [""] * len(columns["ttfts"])
    if len({len(column) for column in columns.values()}) > 1:
        raise InputError(f"{file}: {', '.join(columns)} differ in length, expected one a request")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for number, row in enumerate(rows):
        times = [row["ttfts"], row["start_times"], *(row["itls"] or [0.0])]
        if not all(isinstance(t, int | float) and np.isfinite(t) and t >= 0 for t in times):
            raise InputError(f"{file}: request {number}: expected times of at least 0 in seconds")
    return rows


def _lengths(file: Path, rows: list[dict[str, Any]], name: str) -> Ints:
    values = [row[name] for row in rows]
    if not all(isinstance(value, int) and value > 0 for value in values):
        raise InputError(f"{file}: {name}: expected whole numbers of at least 1")
    return np.array(values, dtype=np.int64)
