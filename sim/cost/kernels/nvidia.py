"""NVIDIA's measured tables (package aiconfigurator-core, Apache-2.0) as a profile.

They hold attention by batch, context, heads, KV heads, head dimension, window and KV type, and
matrix products by shape, in milliseconds a layer, and sums over GPUs by size. They hold no chunk
behind earlier tokens (the roofline goes on there), no decodes beside a chunk, and no norms,
activations, rotary embedding or KV writes: those are counted as bytes over bandwidth
(`sim.cost.kernels.streams`).
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.cost.base import Efficiency
from sim.cost.kernels.grid import Line, neighbours
from sim.cost.kernels.profile import Profile, Row, shape
from sim.cost.kernels.streams import streams
from sim.hardware import Device
from sim.model.geometry import Model
from workloads.columns import Kind, read_columns
from workloads.errors import InputError

PACKAGE = "aiconfigurator_core"
SYSTEMS = {
    "a100-80gb": "a100_sxm",
    "h100": "h100_sxm",
    "h200": "h200_sxm",
    "b200": "b200_sxm",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
KV_NAMES = {"auto": "bfloat16", "bf16": "bfloat16", "fp8": "fp8"}
MAX_TOKENS = 32_768
LARGEST = 1 << 40
LARGEST_IN_PROFILE = (1 << 31) - 2
SHORTEST_MS, LONGEST_MS = 1e-9, 1e6
OVERLAPPING = ("h100", "h200")
"""Whose FlashAttention-3 (Shah et al., 2024) schedules decodes and a chunk as one queue of tiles,
so that reading of the ones hides behind arithmetic of the other. Elsewhere they add up at least: on
the RTX cards whose profiles ship, a mixed step takes 1.4 to 1.7 times the sum."""

Points = dict[int, list[tuple[int, float]]]
Equal = dict[str, int | str]
Read = tuple[Any, ...]
"""Of one row of a table: what was asked for, then microseconds."""


def tables_folder(device: Device, given: Path | None = None) -> Path:
    """Where the package keeps the device's tables. Raises InputError where there are none."""
    root = given
    if root is None:
        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise InputError("profiles import: pip install 'kvtwin[profiles]' brings the tables")
        root = Path(next(iter(spec.submodule_search_locations))) / "systems" / "data"
    if device.name not in SYSTEMS:
        raise InputError(f"--gpu {device.name}: no tables; expected one of {', '.join(SYSTEMS)}")
    folder = root / SYSTEMS[device.name]
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder in this version of the tables")
    return folder


def newest(folder: Path, kind: str, framework: str, table: str) -> Path:
    """The table of the framework's latest version."""
    found = sorted(
        folder.glob(f"{kind}/{framework}/*/{table}_perf.parquet"),
        key=lambda p: [int(n) if n.isdigit() else 0 for n in p.parent.name.split(".")],
    )
    if not found:
        raise InputError(f"{folder}: no {table} of {framework}")
    return found[-1]


def decode_points(
    file: Path, heads: int, kv_heads: int, head_dim: int, kv_type: str, window: int = 0
) -> Points:
    """Microseconds of one layer's decode attention: by batch, (keys each sees, time)."""
    shape = {"num_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim}
    equal: Equal = {**shape, "kv_cache_dtype": kv_type, "window_size": window}
    points: dict[int, dict[int, float]] = {}
    for batch, step, time in _read(file, equal, "batch_size", "step"):
        points.setdefault(batch, {})[step + 1] = time
    if not points:
        raise InputError(f"{file}: no decode of {heads}/{kv_heads} heads of {head_dim}, {kv_type}")
    return {batch: sorted(points[batch].items()) for batch in sorted(points)}


def gemm_points(file: Path, n: int, k: int) -> list[tuple[int, float]]:
    """Microseconds of (m, k) × (k, n) in bf16 by m, bilinear between measured shapes.

    Beyond the largest measured n the last segment goes on, as for a large vocabulary.
    """
    times: dict[tuple[int, int], dict[int, float]] = {}
    for row_n, row_k, m, time in _read(file, {"gemm_dtype": "bfloat16"}, "n", "k", "m"):
        times.setdefault((row_n, row_k), {})[m] = time
    if not times:
        raise InputError(f"{file}: no products in bfloat16")
    low_n, high_n, share_n = neighbours(sorted({row_n for row_n, _ in times}), n)
    low_k, high_k, share_k = neighbours(sorted({row_k for _, row_k in times}), k)
    corners = [times.get((a, b), {}) for a in (low_n, high_n) for b in (low_k, high_k)]
    found = []
    for m in sorted(set(corners[0]).intersection(*corners[1:])):
        a, b, c, d = (corner[m] for corner in corners)
        low, high = a + share_k * (b - a), c + share_k * (d - c)
        found.append((m, low + share_n * (high - low)))
    if not found:
        raise InputError(f"{file}: no products near n={n}, k={k}")
    return found


def reduce_points(folder: Path, framework: str, tp: int) -> list[Row]:
    """Microseconds of an all-reduce over `tp` GPUs by its bytes; sizes are counted in elements.

    vLLM's own, replayed from a graph, where the tables have it; else NCCL's.
    """
    try:
        file = newest(folder, "comm", framework, "custom_allreduce")
        equal: Equal = {"num_gpus": tp, "allreduce_dtype": "bfloat16"}
        found = _read(file, equal, "kernel_source", "message_size")
        times = {2 * size: time for source, size, time in found if "eager" not in source}
    except InputError:
        file = newest(folder, "comm", "nccl", "nccl")
        equal = {"num_gpus": tp, "nccl_dtype": "half", "op_name": "all_reduce"}
        times = {2 * size: time for size, time in _read(file, equal, "message_size")}
    if not times:
        raise InputError(f"{file}: no all-reduce over {tp} GPUs")
    return [(0, 0, size, 0, times[size]) for size in sorted(times) if size < 2**31]


def imported(
    model: Model,
    device: Device,
    *,
    name: str,
    tp: int = 1,
    kv_dtype: str = "auto",
    framework: str = "vllm",
    tables: Path | None = None,
) -> Profile:
    """The profile of a dense model of full attention on one of the tables' devices."""
    if len(model.groups) != 1 or model.groups[0].kind != "full" or model.weights.experts:
        raise InputError(f"{model.name}: tables are read for dense models of full attention alone")
    if kv_dtype not in KV_NAMES:
        raise InputError(f"--kv-cache-dtype {kv_dtype}: expected one of {', '.join(KV_NAMES)}")
    folder, group = tables_folder(device, tables), model.groups[0]
    kv_type, heads, kv_heads = KV_NAMES[kv_dtype], model.num_heads // tp, group.heads_per_rank(tp)
    decode = newest(folder, "attention", framework, "generation_attention")
    prefill = newest(folder, "attention", framework, "context_attention")
    gemm = newest(folder, "gemm", framework, "gemm")
    attention: list[Row] = [
        (0, 0, batch, context, time)
        for batch, points in decode_points(decode, heads, kv_heads, group.head_dim, kv_type).items()
        for context, time in points
    ]
    kind = {"num_heads": heads, "num_key_value_heads": kv_heads, "head_dim": group.head_dim}
    alone: Equal = {**kind, "kv_cache_dtype": kv_type, "window_size": 0, "batch_size": 1}
    chunks: dict[int, float] = dict(_read(prefill, alone, "isl"))
    if not chunks:
        raise InputError(f"{prefill}: no prefill of {heads}/{kv_heads} heads, {kv_type}")
    attention += [(isl, 0, 0, 0, time) for isl, time in sorted(chunks.items())]
    up = (2 if model.gated_mlp else 1) * model.intermediate_size // tp
    width = heads * group.head_dim
    shapes = {
        "qkv_proj": (width + 2 * kv_heads * group.head_dim, model.hidden_size),
        "o_proj": (model.hidden_size, width),
        "gate_up_proj": (up, model.hidden_size),
        "down_proj": (model.hidden_size, model.intermediate_size // tp),
        "lm_head": (-(-model.vocab_size // tp), model.hidden_size),
    }
    rows: dict[str, list[Row]] = {"attention": attention}
    for kernel, (n, k) in shapes.items():
        points = gemm_points(gemm, n, k)
        rows[kernel] = [(0, 0, m, 0, time) for m, time in points if m <= MAX_TOKENS]
    computed = streams(model, device, tp=tp, kv_bytes=1 if kv_type == "fp8" else 2)
    rows |= computed
    if tp > 1:
        rows["all_reduce"] = reduce_points(folder, framework, tp)
    versions = f"{framework} {decode.parent.name} attention, {gemm.parent.name} GEMM"
    return Profile(
        {
            "name": name,
            "gpu": device.name,
            "model": model.name,
            "tp": tp,
            **shape(model),
            "kv_dtype": "fp8" if kv_dtype == "fp8" else "auto",
            "beside_chunk": "overlap" if device.name in OVERLAPPING else "sum",
            "computed": sorted(computed),
            "source": f"aiconfigurator-core, NVIDIA, Apache-2.0: {versions}, KV {kv_type}",
        },
        rows,
        name,
    )


class Beside(NamedTuple):
    """One layer's decode attention, in milliseconds: as measured, and as a datasheet has it."""

    what: str
    measured_ms: float
    roofline_ms: float

    def __str__(self) -> str:
        error = 100 * (self.roofline_ms / self.measured_ms - 1)
        return (
            f"{self.what}, a layer: {self.measured_ms:.4f} ms measured, "
            f"{self.roofline_ms:.4f} ms by roofline ({error:+.0f} %)"
        )


def beside_roofline(
    model: Model,
    device: Device,
    *,
    tp: int = 1,
    framework: str = "vllm",
    tables: Path | None = None,
) -> Iterator[Beside]:
    """The roofline's error at a few decode points, where the tables have them."""
    file = newest(tables_folder(device, tables), "attention", framework, "generation_attention")
    group = model.groups[0]
    heads, kv_heads = model.num_heads // tp, group.heads_per_rank(tp)
    rate = device.bandwidth_bytes_per_s * Efficiency().bandwidth.value
    for batch, context, kv_type, window in (
        (1, 8192, "bfloat16", 0),
        (64, 4096, "bfloat16", 0),
        (64, 4096, "fp8", 0),
        (64, 4096, "bfloat16", 128),
    ):
        try:
            points = decode_points(file, heads, kv_heads, group.head_dim, kv_type, window)
            measured = at(points, batch, context) / 1e3
        except (InputError, KeyError):
            continue
        size = 2 * kv_heads * group.head_dim * (1 if kv_type == "fp8" else 2)
        roofline = 1e3 * batch * min(context, window or context) * size / rate
        seen = f", window {window}" if window else ""
        what = f"decode of {batch} × {context:,} keys in {kv_type}{seen}"
        yield Beside(what, measured, roofline)


def at(points: Points, batch: int, context: int) -> float:
    """Microseconds between measured contexts of a measured batch."""
    return Line(points[batch]).at(context)


def _read(file: Path, equal: Equal, *values: str) -> list[Read]:
    """Rows whose columns equal these, as `values` in that order and the time in microseconds.

    The column `kernel_source` is text, all others count. Raises InputError naming file and column.
    """
    kinds: dict[str, Kind] = {
        column: "text" if isinstance(value, str) else "whole" for column, value in equal.items()
    }
    kinds |= {column: "text" if column == "kernel_source" else "whole" for column in values}
    columns, _ = read_columns(file, {**kinds, "latency": "number"}, "NVIDIA's measured times")
    for column in values:
        most = LARGEST if column == "message_size" else LARGEST_IN_PROFILE
        if kinds[column] == "whole" and not _between(columns[column], 0, most):
            raise InputError(f"{file}: column {column!r}: expected counts from 0 to {most:,}")
    if not _between(columns["latency"], SHORTEST_MS, LONGEST_MS):
        raise InputError(
            f"{file}: column 'latency': expected milliseconds from {SHORTEST_MS} to {LONGEST_MS:g}"
        )
    wanted = np.ones(len(columns["latency"]), np.bool_)
    for column, value in equal.items():
        wanted &= columns[column] == value
    found = [columns[column][wanted].tolist() for column in values]
    return list(zip(*found, (1e3 * columns["latency"][wanted]).tolist(), strict=True))


def _between(column: NDArray[Any], low: float, high: float) -> bool:
    return bool(((column >= low) & (column <= high)).all())
