"""Run folders in, runs out. What can't be read is one InputError that names the file."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.files import LAYOUT, MEMORY, SCHEMA_VERSION, STRETCHES
from reports.recorded import unrecorded
from reports.run_json import RunInfo
from workloads.columns import Kind, read_columns
from workloads.errors import InputError
from workloads.incoming import checked, read_json, shown
from workloads.outgoing import visible_in
from workloads.spool import Latest, parts

Columns = Mapping[str, NDArray[Any]]

# Only what a report draws: a run of a million requests need not be held whole.
REQUESTS = (
    "request_id",
    "arrival_s",
    "prompt_tokens",
    "output_tokens",
    "status",
    "first_scheduled_s",
    "first_token_s",
    "finish_s",
    "generated_tokens",
)
STEPS = ("start_s", "end_s", "prefill_tokens")
OPTIONAL = (
    "preemptions",
    "recomputed_tokens",
    "cached_tokens",
    "cached_bytes",
    "preempted_s",
    "recomputing_s",
)
"""Columns that a run may lack; then they are zero."""
TIMELINE = ("time_s", "running", "waiting", *(f"{use}_bytes" for use in MEMORY))


@dataclass(frozen=True)
class Run:
    """One run folder in memory. `label` is unique among the runs loaded together."""

    folder: Path
    label: str
    info: RunInfo
    requests: Columns
    steps: Columns
    timeline: Columns
    held: NDArray[np.int64] | None = None
    """(samples, stretches): how much of each stretch of the addresses is held, in 255ths."""

    def value(self, metric: str) -> float | None:
        """A metric's value; None where it is null or unknown to this run."""
        return next((m.value for m in self.info.metrics if m.name == metric), None)

    def count(self, status: str) -> int:
        """Requests that ended with this status."""
        return self._ended[status]

    @cached_property
    def _ended(self) -> Counter[str]:
        """Requests by status."""
        found: Counter[str] = Counter()
        for (status,) in parts(self.requests, "status"):
            found.update(dict(zip(*map(np.ndarray.tolist, np.unique_counts(status)), strict=True)))
        return found


def optional(run: Run, name: str) -> NDArray[Any]:
    """A column of the requests that not every producer writes; zeros where it isn't."""
    return run.requests.get(name, np.zeros(len(run.requests["status"]), np.int64))


def cached(run: Run) -> NDArray[np.int64]:
    """Free bytes that hold a prefix, at each sample; zeros where the producer doesn't say."""
    none = np.zeros(len(run.timeline["time_s"]), np.int64)
    free = np.maximum(run.timeline["free_bytes"], 0)
    held: NDArray[np.int64] = np.minimum(run.timeline.get("cached_bytes", none), free)
    return held


def knows_parts(run: Run) -> bool:
    """Whether its samples tell what KV in use is; an engine's log has only how much there is."""
    return run.info.kind == "simulated" or run.value("kv_live_share_mean") is not None


def samples_kv(run: Run) -> bool:
    """Whether its samples have KV at all."""
    return run.info.kind == "simulated" or run.value("kv_cache_usage_perc") is not None


def load_runs(paths: Iterable[Path]) -> list[Run]:
    """The runs in these folders, each a run folder or a folder of run folders.

    Runs of one folder are in the order of the command that made them, else by name.

    Raises InputError where a folder holds no run, or a run's file is missing, corrupt or of
    another version.
    """
    found = (map(_load, _run_folders(Path(path))) for path in paths)
    return uniquely_labelled([run for runs in found for run in sorted(runs, key=_position)])


def _position(run: Run) -> tuple[bool, int]:
    """Runs that don't say where they stand keep their places, after those that do."""
    return run.info.order is None, run.info.order or 0


def _run_folders(path: Path) -> list[Path]:
    if not path.is_dir():
        raise InputError(f"{path}: no such folder, expected a run folder or a folder of them")
    if (path / "run.json").exists():
        return [path]
    found = sorted(child.parent for child in path.glob("*/run.json"))
    if not found:
        raise InputError(f"{path}: no run.json in it or one level below, expected a run folder")
    return found


def _load(folder: Path) -> Run:
    info = _info(folder / "run.json")
    run = Run(
        folder,
        info.name,
        info,
        _table(folder / "requests.parquet", REQUESTS),
        _table(folder / "steps.parquet", STEPS),
        _table(folder / "timeline.parquet", TIMELINE),
        _layout(folder / f"{LAYOUT}.parquet"),
    )
    _check_whole(run)
    if info.kind == "measured":
        unknown = unrecorded(len(run.steps["start_s"]), run.timeline, info.counted)
        known = [
            one.model_copy(update={"value": None}) if one.name in unknown else one
            for one in info.metrics
        ]
        run = replace(run, info=info.model_copy(update={"metrics": tuple(known)}))
    return run


def _check_whole(run: Run) -> None:
    """Raise InputError where a table has lost rows that run.json counts."""
    rows, expected = len(run.requests["request_id"]), run.info.trace.rows
    if rows != expected:
        raise InputError(
            f"{run.folder / 'requests.parquet'}: {rows:,} rows, but run.json says {expected:,}; "
            "expected the table of this run"
        )
    prefilled = sum(int(tokens.sum()) for (tokens,) in parts(run.steps, "prefill_tokens"))
    expected_tokens = run.value("prefill_tokens")
    if run.info.warm_up and expected_tokens is not None:  # the table has what the metric left out
        expected_tokens = max(prefilled, expected_tokens)
    if expected_tokens is not None and prefilled != expected_tokens:
        raise InputError(
            f"{run.folder / 'steps.parquet'}: {prefilled:,} prefill_tokens, but run.json says "
            f"{expected_tokens:,.0f}; expected the table of this run"
        )


def _info(file: Path) -> RunInfo:
    data = visible_in(read_json(file))
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise InputError(f"{file}: schema_version is {shown(version)}, expected {SCHEMA_VERSION}")
    return checked(RunInfo, data, str(file))


def _table(file: Path, names: tuple[str, ...]) -> Columns:
    if not file.exists():
        raise InputError(f"{file}: no such file, expected a table of the run")
    wanted = {name: _kind(name) for name in names}
    others = {name: _kind(name) for name in OPTIONAL}
    return Latest(read_columns(file, wanted, ", ".join(names), others, spool=True)[0])


def _layout(file: Path) -> NDArray[np.int64] | None:
    if not file.exists():
        return None
    wanted: dict[str, Kind] = {f"stretch_{i}": "whole" for i in range(STRETCHES)}
    columns = read_columns(file, wanted, "stretch_0 and so on")[0]
    held: NDArray[np.int64] = np.stack(list(columns.values()), axis=1)
    if len(held) and not 0 <= int(held.min()) <= int(held.max()) <= 255:
        raise InputError(f"{file}: expected whole numbers from 0 to 255")
    return held


def _kind(name: str) -> Kind:
    if name == "status":
        return "text"
    return "time" if name.endswith("_s") else "whole"


def uniquely_labelled(runs: list[Run]) -> list[Run]:
    """The same runs; those of one name (other device, other day) are told apart by folder."""
    plain = [
        run.info.name
        if run.info.kind in ("simulated", run.info.name)
        else f"{run.info.name} · {run.info.kind}"
        for run in runs
    ]
    names = Counter(plain)
    seen: Counter[str] = Counter()
    unique = []
    for run, name in zip(runs, plain, strict=True):
        label = name if names[name] == 1 else f"{name} · {run.folder.resolve().parent.name}"
        seen[label] += 1
        unique.append(replace(run, label=label if seen[label] == 1 else f"{label} ({seen[label]})"))
    return unique
