"""Synthetic run folders: a first-come queue of k servers stands in for the simulator.

Every table and metric agrees with the others, and memory sums to the capacity.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reports.files import MEMORY
from sim.engine.record import STATUSES

TOKEN_BYTES = 819_200  # OPT-13B
CAPACITY = 12 * 2**30
MAX_LEN = 2048


@dataclass(frozen=True)
class Spec:
    """What a synthetic run is like: `held` tokens are taken for each running request."""

    name: str
    servers: int
    held: str  # "max": MAX_LEN slots; "block": 16-token blocks
    requests: int = 300
    rate: float = 1.0
    longest: int = MAX_LEN  # requests of more tokens are refused
    kind: str = "simulated"
    limitation: str | None = None
    samples: int = 400


PREALLOCATION = Spec("preallocation", 7, "max")
PAGING = Spec("paging:block_size=16", 24, "block")

Write = Callable[..., Path]


def write_folder(folder: Path, spec: Spec, changes: dict[str, Any] | None = None) -> Path:
    requests = request_rows(spec)
    timeline = timeline_rows(spec, requests)
    return write_tables(folder, spec, requests, timeline, step_rows(timeline), changes)


def write_tables(
    folder: Path,
    spec: Spec,
    requests: dict[str, Any],
    timeline: dict[str, Any],
    steps: dict[str, Any],
    changes: dict[str, Any] | None = None,
) -> Path:
    folder.mkdir(parents=True)
    info = run_json(spec, requests, timeline, steps) | (changes or {})
    (folder / "run.json").write_text(json.dumps(info))
    statuses = np.asarray(STATUSES)[requests["status"]]
    table = requests | {"status": pa.array(statuses.tolist(), pa.string()).dictionary_encode()}
    for name, columns in (("requests", table), ("steps", steps), ("timeline", timeline)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def request_rows(spec: Spec) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    n = spec.requests
    arrival = np.cumsum(rng.exponential(1 / spec.rate, n))
    arrival -= arrival[0] if n else 0
    prompt = np.clip(rng.lognormal(4.7, 0.9, n).astype(np.int64), 4, 1200)
    output = np.clip(rng.lognormal(5.6, 0.7, n).astype(np.int64), 1, 840)
    refused = prompt + output > spec.longest
    start, first, finish = (np.full(n, np.nan) for _ in range(3))
    free_at = np.zeros(spec.servers)
    for i in np.flatnonzero(~refused):
        server = free_at.argmin()
        start[i] = max(arrival[i], free_at[server])
        first[i] = start[i] + 0.02 + prompt[i] * 1e-4
        finish[i] = free_at[server] = first[i] + (output[i] - 1) * 0.03
    return {
        "request_id": np.arange(n),
        "arrival_s": arrival,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "status": np.where(refused, STATUSES.index("refused"), 0),
        "first_scheduled_s": start,
        "first_token_s": first,
        "finish_s": finish,
        "generated_tokens": np.where(refused, 0, output),
        "preemptions": np.zeros(n, np.int64),
        "recomputed_tokens": np.zeros(n, np.int64),
        "cached_tokens": np.zeros(n, np.int64),
    }


def timeline_rows(spec: Spec, requests: dict[str, Any]) -> dict[str, Any]:
    finish = requests["finish_s"][np.isfinite(requests["finish_s"])]
    time = np.linspace(0, finish.max() if len(finish) else 0.0, spec.samples if len(finish) else 1)
    start, end = requests["first_scheduled_s"][:, None], requests["finish_s"][:, None]
    running = (start <= time) & (time < end)
    waiting = (requests["arrival_s"][:, None] <= time) & (time < start)
    request, sample = np.nonzero(running)  # few of all requests at each

    def summed(tokens: np.ndarray) -> np.ndarray:
        """Of what the running ones have, over each sample; whole numbers far below 2^53."""
        return np.bincount(sample, tokens, len(time)).astype(np.int64)

    begun, ended = requests["first_scheduled_s"][request], requests["finish_s"][request]
    prompt, output = requests["prompt_tokens"][request], requests["output_tokens"][request]
    done = np.clip((time[sample] - begun) / (ended - begun), 0, 1)
    live = (prompt + np.floor(done * (output - 1))).astype(np.int64)
    if spec.held == "max":
        final = prompt + output - 1
        reserved = summed(final - live) * TOKEN_BYTES
        internal = summed(MAX_LEN - final) * TOKEN_BYTES
        external = np.full(len(time), CAPACITY % (MAX_LEN * TOKEN_BYTES))
    else:
        reserved, external = np.zeros((2, len(time)), np.int64)
        internal = summed(-live % 16) * TOKEN_BYTES
    memory = {
        "live": summed(live) * TOKEN_BYTES,
        "reserved": reserved,
        "internal": internal,
        "external": external,
        "metadata": running.sum(0) * 4096,
    }
    memory["free"] = CAPACITY - sum(memory.values())
    assert memory["free"].min() >= -(2**20), "this spec holds more than there is"
    columns = {"time_s": time, "running": running.sum(0), "waiting": waiting.sum(0)}
    return columns | {f"{use}_bytes": memory[use].astype(np.int64) for use in MEMORY}


def step_rows(timeline: dict[str, Any]) -> dict[str, Any]:
    """An event a sample, the engine idle where nothing runs."""
    time = timeline["time_s"]
    busy = np.flatnonzero(timeline["running"][:-1] > 0)
    return {
        "start_s": time[busy],
        "end_s": time[busy + 1],
        "prefill_tokens": np.where(busy % 5 == 0, 512, 0),
    }


def run_json(
    spec: Spec, requests: dict[str, Any], timeline: dict[str, Any], steps: dict[str, Any]
) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "created_at": "2026-01-01T00:00:00Z",
        "kvtwin_version": "0.1.0",
        "versions": {"python": "3.11.7", "numpy": "2.3.5", "simpy": "4.1.1", "pyarrow": "26.0"},
        "kind": spec.kind,
        "name": spec.name,
        "command": f"kvtwin simulate --policy {spec.name} --synthetic sharegpt -o out",
        "trace": {
            "name": "sharegpt-like",
            "source": "lengths drawn log-normal",
            "rows": spec.requests,
            "rows_read": spec.requests + 3,
            "dropped": {"no output tokens": 3},
            "notes": ["sorted by arrival: 2 rows were out of order"],
        },
        "model": {"name": "OPT-13B", "parameters": 12_853_473_280, "layers": 40},
        "device": {
            "name": "A100-40GB",
            "memory_bytes": 40 * 2**30,
            "bandwidth_bytes_per_s": 1.555e12,
            "flops_per_s": 312e12,
        },
        "policy": {"spec": spec.name, "options": {}, "limitation": spec.limitation},
        "limits": {
            "max_num_seqs": 256,
            "max_num_batched_tokens": 2048,
            "max_model_len": MAX_LEN,
            "batching": "continuous",
        },
        "ledger": [
            {"name": "weights", "bytes": 25_706_946_560, "why": "12.9 billion × 2 bytes"},
            {"name": "activations", "bytes": 2**30, "why": "peak of a 2,048-token step"},
            {
                "name": "unused",
                "bytes": 27 * 2**30 - 25_706_946_560,
                "why": "kept free: 1 − memory utilization",
            },
            {"name": "KV cache", "bytes": CAPACITY, "why": "what is left"},
        ],
        "pool": {"capacity_bytes": CAPACITY, "token_bytes": TOKEN_BYTES, "max_len": MAX_LEN},
        "cost": {
            "name": "roofline",
            "constants": [
                {
                    "name": "bandwidth",
                    "value": 1.555e12,
                    "unit": "B/s",
                    "source": "A100 datasheet",
                },
                {
                    "name": "efficiency",
                    "value": 0.82,
                    "unit": "",
                    "source": "assumed",
                },
            ],
        },
        "seed": 7,
        "metrics": metric_rows(requests, timeline, steps),
    }


def metric_rows(
    requests: dict[str, Any], timeline: dict[str, Any], steps: dict[str, Any]
) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = []

    def add(name: str, unit: str, value: float | None, formula: str = "as measured") -> None:
        label = name.replace("_", " ")
        metrics.append(
            {"name": name, "label": label, "unit": unit, "formula": formula, "value": value}
        )

    add("requests", "", len(requests["status"]), "rows of the trace")
    for i, status in enumerate(STATUSES):
        add(status, "", int((requests["status"] == i).sum()), f"requests whose status is {status}")
    finish = requests["finish_s"][np.isfinite(requests["finish_s"])]
    makespan = float(finish.max()) if len(finish) else None
    add("makespan_s", "s", makespan, "last token − first arrival")
    generated = int(requests["generated_tokens"].sum())
    done = int((requests["status"] < 2).sum())
    add("request_throughput", "req/s", done / makespan if makespan else None)
    add("output_throughput", "tokens/s", generated / makespan if makespan else None)
    first, arrival = requests["first_token_s"], requests["arrival_s"]
    more = requests["generated_tokens"] - 1
    latencies = {
        "ttft": first - arrival,
        "tpot": (requests["finish_s"] - first)[more > 0] / more[more > 0],
        "e2el": requests["finish_s"] - arrival,
        "queue": requests["first_scheduled_s"] - arrival,
    }
    for name, seconds in latencies.items():
        known = seconds[np.isfinite(seconds)] * 1000
        formula = "first token − arrival; linear interpolation"
        add(f"{name}_ms_mean", "ms", float(known.mean()) if len(known) else None, formula)
        for p in (50, 90, 99):
            value = float(np.percentile(known, p)) if len(known) else None
            add(f"{name}_ms_p{p}", "ms", value, formula)
    add("num_preemptions", "", 0)
    for state in ("running", "waiting"):
        add(f"{state}_mean", "requests", float(timeline[state].mean()))
        add(f"{state}_peak", "requests", int(timeline[state].max()))
    for use in MEMORY:
        share = float(timeline[f"{use}_bytes"].mean() / CAPACITY * 100)
        add(f"kv_{use}_share_mean", "%", share, f"{use} bytes ÷ capacity, mean over time")
    used = CAPACITY - timeline["free_bytes"]
    add("kv_used_peak_bytes", "bytes", int(used.max()))
    add("steps", "", len(steps["start_s"]))
    add("something_new", "widgets", 1234.5, "a metric this version has never heard of")
    return metrics


def run_metrics(spec: Spec) -> list[dict[str, Any]]:
    """The metrics alone, as `run.json` would hold them."""
    requests = request_rows(spec)
    timeline = timeline_rows(spec, requests)
    return metric_rows(requests, timeline, step_rows(timeline))
