"""A measured run of a real engine, as LLMServingSim's benchmark records one."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from sim.measured.prefixes import FILE, read_prefixes
from sim.measured.run import SERIES, Measured
from sim.measured.run_meta import Meta
from sim.measured.series import lead_s
from workloads import read_trace
from workloads.errors import InputError
from workloads.incoming import (
    checked,
    csv_rows,
    is_number,
    number_in,
    read_json,
    read_json_lines,
    shown,
)
from workloads.schema import Floats

LARGEST = 1e12
"""Seconds, requests or percent: beyond it a number is a mistake."""

BENCH = "bench.json"
PROMPTS = "prompt_throughput"  # of the series: tells when its clock started, where it is there
STAMPS = ("queued_ts", "first_token_ts", "last_token_ts")


def shipped_runs() -> list[str]:
    """Names of the measured runs that come with the package."""
    return sorted(f.name for f in files("sim.measured").joinpath("runs").iterdir() if f.is_dir())


def read_measured(name_or_folder: str) -> Measured:
    """A shipped run by name, or a folder of meta.json, requests.jsonl and timeseries.csv, or a file
    of vLLM's own benchmark (`sim.measured.vllm_bench`), which a folder may hold as bench.json. A
    folder's hash_ids.jsonl tells which prompts begin alike; it may hold config.json and steps.json
    too (`sim.measured.run`).

    `arrival_time` is on another clock than the engine's stamps: they are joined by the smallest
    delay seen between arriving and being queued, so latencies miss that delay (1 to 2 ms). The
    series has a third, which `sim.measured.series` joins to them.
    Raises InputError naming file and field.
    """
    folder = Path(name_or_folder)
    if name_or_folder in shipped_runs():
        folder = Path(str(files("sim.measured").joinpath(f"runs/{name_or_folder}")))
    if folder.is_file():
        from sim.measured.vllm_bench import read_bench  # it makes a Measured, so it comes later

        return read_bench(folder)
    if not folder.is_dir():
        known = ", ".join(shipped_runs())
        raise InputError(f"{name_or_folder}: no such folder nor shipped run; those are: {known}")
    if (folder / BENCH).is_file():
        from sim.measured.vllm_bench import read_bench

        run = read_bench(folder / BENCH)
        run = replace(run, name=folder.name, meta={**run.meta, **_meta(folder)}, folder=folder)
        return _with_own_prefixes(run, folder)
    requests = folder / "requests.jsonl"
    if not requests.exists():
        raise InputError(
            f"{folder}: holds no requests.jsonl; expected a measured run: requests.jsonl, "
            f"meta.json and timeseries.csv, or {BENCH}"
        )
    trace = read_trace(requests, format="vllm-seconds")
    rows = read_json_lines(requests)
    if len(rows) != len(trace):
        raise InputError(f"{requests}: holds requests without tokens, expected none")
    stamps = {name: _stamps(requests, rows, name) for name in (*STAMPS, "arrival_time")}
    order = np.argsort(stamps["arrival_time"], kind="stable")
    arrival = stamps["arrival_time"]
    zero = float((stamps["queued_ts"] - arrival).min() + arrival.min())
    first, last = (stamps[name][order] - zero for name in STAMPS[1:])
    if (first < trace.arrival_s).any() or (last < first).any():
        raise InputError(
            f"{requests}: a token before its request, expected arrival <= first <= last"
        )
    series, meta = _series(folder / "timeseries.csv"), _meta(folder)
    if meta.get("num_requests", len(rows)) != len(rows):
        raise InputError(
            f"{requests}: holds {len(rows):,} requests, but meta.json says num_requests "
            f"{meta['num_requests']:,}; expected all that the server had"
        )
    prompts = series.pop(PROMPTS)
    series["t"] = series["t"] - lead_s(series["t"], prompts, first, trace.prompt_tokens)
    measured = Measured(folder.name, trace, first, last, series, meta, order, folder)
    return _with_own_prefixes(measured, folder)


def _with_own_prefixes(measured: Measured, folder: Path) -> Measured:
    file = folder / FILE
    return read_prefixes(file, measured) if file.exists() else measured


def _stamps(file: Path, rows: list[dict[str, Any]], name: str) -> Floats:
    for number, row in enumerate(rows, 1):
        value = row.get(name)
        if not is_number(value) or not 0 <= value <= LARGEST:
            raise InputError(
                f"{file}: request {number}: {name} is {shown(value)}, expected a number of at "
                "least 0"
            )
    return np.array([row[name] for row in rows], dtype=np.float64)


def _series(file: Path) -> dict[str, Floats]:
    if not file.exists():  # not recorded, as by vLLM's own benchmark
        return {name: np.empty(0) for name in (*SERIES, PROMPTS)}
    columns: dict[str, list[float]] = {name: [] for name in (*SERIES, PROMPTS)}
    for line, row in csv_rows(file, SERIES):
        for name, values in columns.items():
            text = row.get(name, "0")
            values.append(number_in(text))
            if not 0 <= values[-1] <= LARGEST:
                raise InputError(
                    f"{file}: line {line}: {name} is {shown(text)}, expected a number of at least 0"
                )
    return {name: np.array(values) for name, values in columns.items()}


def _meta(folder: Path) -> dict[str, Any]:
    file = folder / "meta.json"
    if not file.exists():
        return {}
    return checked(Meta, read_json(file), str(file)).model_dump(exclude_none=True, by_alias=True)
