"""A run on disk: run.json beside three Parquet tables."""

import platform
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reports.files import LAYOUT, SCHEMA_VERSION
from sim.engine.record import Column
from sim.memory.capacity import run_curves
from sim.policy.manager import group_bytes
from sim.run.metrics import as_dicts
from sim.run.parquet import write_table
from sim.run.seam import told_by
from workloads.console import json_text

if TYPE_CHECKING:
    from sim.run.simulation import Run, Setup


def folder_name(label: str) -> str:
    """A policy's label as a folder name: `paging:block_size=16` -> `paging-block_size-16`."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", label).strip("-")


def write_run(run: "Run", folder: Path, command: str, written: bool = False) -> dict[str, Any]:
    """Write the run into an existing folder; returns what run.json holds.

    `written`: its requests and events are there already, and its files are complete.
    """
    log = run.log
    tables: dict[str, Mapping[str, Column]] = {"timeline": log.timeline}
    if not written:
        tables |= {"requests": log.requests, "steps": log.steps}
    if len(log.held):
        columns = enumerate(log.held.T)
        stretches: dict[str, Column] = {f"stretch_{i}": np.ascontiguousarray(c) for i, c in columns}
        tables[LAYOUT] = {"time_s": log.timeline["time_s"], **stretches}
    for name, table in tables.items():
        write_table(table, folder / f"{name}.parquet")
    with told_by(run.setup.policy, run.setup.label):  # asked what other lengths would fit
        description = describe_run(run, command)
    text = json_text(description)
    (folder / "run.json").write_text(text + "\n", encoding="utf-8")
    return description


@cache
def _version(package: str) -> str:
    """Its version; a source tree that was never installed has none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def describe_run(run: "Run", command: str) -> dict[str, Any]:
    """What run.json holds: all that decided the outcome, and its metrics."""
    setup = run.setup
    trace, model, device = setup.trace, setup.model, setup.device
    return {
        "schema_version": SCHEMA_VERSION,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "kvtwin_version": _version("kvtwin"),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in run.versions},
        },
        "kind": run.kind,
        "name": setup.name,
        "command": command,
        "trace": {
            "name": trace.name,
            "source": trace.provenance.source,
            "rows": len(trace),
            "rows_read": trace.provenance.rows_read,
            "dropped": trace.provenance.dropped,
            "notes": list(trace.provenance.notes),
        },
        "model": {
            "name": model.name,
            "parameters": model.parameters,
            "layers": model.layers,
            "weight_bytes": model.weight_bytes(setup.tp),
            "kv_bytes_per_token": setup.pool.token_bytes,
            "kv_formula": model.formula(setup.ledger.kv, setup.tp),
        },
        "device": {
            "name": device.name,
            "count": setup.gpus,
            "memory_bytes": device.memory_bytes,
            "bandwidth_bytes_per_s": device.bandwidth_bytes_per_s,
            "flops_per_s": device.flops_per_s,
        },
        "policy": {
            "spec": setup.label,
            "options": asdict(setup.policy),
            "limitation": setup.limitation,
            "stored_as": None if setup.stored_loss is None else setup.ledger.kv.name,
        },
        "limits": asdict(setup.limits),
        "engine": setup.engine.name,
        "gpu_memory_utilization": setup.gpu_memory_utilization,
        "request_rate": setup.request_rate,
        "horizon_s": setup.horizon_s,
        "closed_loop": None if setup.closed is None else asdict(setup.closed),
        "sessions": setup.trace.turns is not None,
        "replay": setup.replay,
        "warm_up": _warm_up(run),
        "fast_forward": setup.fast_forward,
        "sample_interval_s": setup.interval_s,
        "ledger": [
            {"name": line.name, "bytes": line.size_bytes, "why": line.why}
            for line in setup.ledger.lines
        ],
        "pool": {
            "capacity_bytes": setup.capacity_bytes,
            "token_bytes": setup.pool.token_bytes,
            "state_bytes": setup.pool.state_bytes,
            "max_len": setup.pool.max_len,
            "groups": _groups(setup),
        },
        "cost": {
            "name": run.cost.name,
            "constants": [constant._asdict() for constant in run.cost.constants],
            "warnings": list(run.cost.warnings),
        },
        "replicas": 1 if setup.lockstep else setup.replicas,
        "data_parallel": setup.replicas if setup.lockstep else 1,
        "router": setup.router if setup.replicas > 1 else None,
        "service_level": None if setup.level is None else asdict(setup.level),
        "money": asdict(setup.money),
        "seed": None,
        "capacity": [
            {"label": one.label, "points": [list(point) for point in one.points]}
            for one in run_curves(setup.policy, setup.label, setup.ledger, setup.pool.max_len)
        ],
        "counted": list(run.counted),
        "metrics": as_dicts(run.metrics_list),
    }


def _warm_up(run: "Run") -> dict[str, Any] | None:
    """What was asked for, when it ended, and how many requests came before."""
    if run.setup.warm_up is None:
        return None
    arrival_s = run.log.requests["arrival_s"]
    end_s = run.setup.warm_up.end_s(arrival_s)
    left_out = int((arrival_s < end_s).sum())
    return {"asked": run.setup.warm_up.text, "end_s": end_s, "requests": left_out}


def _groups(setup: "Setup") -> list[dict[str, Any]]:
    """A token's bytes in each group of layers, on one device, as the policy stores it."""
    pool = setup.manager().pool
    return [
        {
            "kind": group.kind,
            "layers": group.layers,
            "window": group.window,
            "payload_bytes": payload,
            "scale_bytes": scales,
        }
        for group, stored in zip(pool.groups, pool.stored, strict=True)
        for payload, scales in [group_bytes(1, group, stored)]
    ]
