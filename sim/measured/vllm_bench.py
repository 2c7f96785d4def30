"""A run as `vllm bench serve --save-result --save-detailed` records it: one JSON file.

The client's view: seconds of its own clock from sending a request to its tokens, so latencies
include the way there and back. It holds no time series and doesn't tell the engine's options.
"""

from pathlib import Path
from typing import Any

import numpy as np

from sim.measured.run import SERIES, Measured
from workloads.errors import InputError
from workloads.incoming import is_number, read_json, shown
from workloads.schema import Floats, Ints, Provenance, Trace

LONGEST_S = 1e10
MOST_TOKENS = 2**53

DETAILS = ("input_lens", "output_lens", "ttfts", "itls", "start_times")


def read_bench(file: Path) -> Measured:
    """Requests in order of sending. Failed ones, and those without a token, are left out.

    Raises InputError naming file and field.
    """
    content = read_json(file)
    if not isinstance(content, dict):
        raise InputError(f"{file}: expected a JSON object")
    rows = _rows(file, content)
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
    meta: dict[str, Any] = {}
    if (model := content.get("model_id")) is not None:
        if not isinstance(model, str):
            raise InputError(f"{file}: model_id is {shown(model)}, expected text")
        meta["model"] = model
    if (most := content.get("max_concurrency")) is not None:
        if type(most) is not int or not 1 <= most <= MOST_TOKENS:
            raise InputError(f"{file}: max_concurrency is {shown(most)}, expected at least 1")
        meta["max_concurrency"] = most
    return Measured(file.stem, trace, first, last, series, meta, np.array(good)[order])


def _rows(file: Path, content: dict[str, Any]) -> list[dict[str, Any]]:
    missing = [name for name in DETAILS if not isinstance(content.get(name), list)]
    if missing:
        raise InputError(
            f"{file}: lacks {', '.join(missing)}; expected what "
            "vllm bench serve --save-result --save-detailed writes"
        )
    columns = {name: content[name] for name in DETAILS}
    errors = content.get("errors") or [""] * len(columns["ttfts"])
    if not isinstance(errors, list):
        raise InputError(f"{file}: errors is {shown(errors)}, expected a text for each request")
    columns["error"] = errors
    if len({len(column) for column in columns.values()}) > 1:
        raise InputError(f"{file}: {', '.join(columns)} differ in length, expected one a request")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for number, row in enumerate(rows):
        _check(f"{file}: request {number}", row)
    return rows


def _check(where: str, row: dict[str, Any]) -> None:
    """Raise InputError naming the field that isn't as the benchmark writes it."""
    row["itls"] = row["itls"] or []
    if not isinstance(row["itls"], list):
        raise InputError(f"{where}: itls: {shown(row['itls'])}, expected a list of seconds")
    for name in ("ttfts", "start_times", "itls"):
        for time in row[name] if name == "itls" else (row[name],):
            if not is_number(time) or not 0 <= time <= LONGEST_S:
                raise InputError(
                    f"{where}: expected times of at least 0 in seconds, {name} holds {shown(time)}"
                )
    for name in ("output_lens", "input_lens"):
        if type(row[name]) is not int or not 0 <= row[name] <= MOST_TOKENS:
            raise InputError(
                f"{where}: {name}: expected whole numbers of at least 1, found {shown(row[name])}"
            )
    if not isinstance(row["error"], str | None):
        raise InputError(f"{where}: errors: {shown(row['error'])}, expected a text")


def _lengths(file: Path, rows: list[dict[str, Any]], name: str) -> Ints:
    values = [row[name] for row in rows]
    if min(values) < 1:
        raise InputError(f"{file}: {name}: expected whole numbers of at least 1")
    return np.array(values, dtype=np.int64)
