"""LLMServingSim's folder of profiler CSVs as one profile file."""

from pathlib import Path
from typing import Any

from sim.cost.kernels.all_reduce import AllReduce
from sim.cost.kernels.profile import (
    KV_TYPES,
    PER_LAYER,
    PER_SEQUENCE,
    PER_STEP,
    REQUIRED,
    Profile,
    Row,
    refuse_incomplete,
    shape,
)
from sim.cost.kernels.skew import MULTIPROCESSORS
from sim.hardware import device_called
from sim.model.presets import find_model
from sim.units import BYTES, BYTES_PER_S, NANOSECONDS, parse_quantity
from workloads.errors import InputError
from workloads.incoming import csv_rows, decoded, number_in, read_bytes, shown

SHORTEST_US = 1e-6
"""No kernel is faster than a picosecond."""


def read_folder(
    folder: Path,
    *,
    name: str,
    tp: int = 1,
    model: str | None = None,
    multiprocessors: int | None = None,
    all_reduce: str | None = None,
    kernel_overlap: str | None = None,
    kernel_time: str | None = None,
    source: str | None = None,
) -> Profile:
    """The profile in `folder`: meta.yaml and tp<N>/{attention,dense,per_sequence,moe,skew}.csv.

    The CSVs may lie in the folder itself, meta.yaml one above; moe.csv, skew.csv and meta.yaml may
    be absent. Raises InputError naming file, line and column.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected one of profile CSVs")
    tables = folder / f"tp{tp}" if (folder / f"tp{tp}").is_dir() else folder
    meta = _meta(next((p for p in (folder, folder.parent) if (p / "meta.yaml").exists()), folder))
    attention = _rows(
        tables / "attention.csv", ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
    )
    rows: dict[str, list[Row]] = {
        "attention": [(a, b, c, d, float(r["time_us"])) for (a, b, c, d), r in attention]
    }
    known = PER_LAYER | PER_STEP | PER_SEQUENCE
    for file, column in (("dense.csv", "tokens"), ("per_sequence.csv", "sequences")):
        for (size,), row in _rows(tables / file, (column,), "layer"):
            kernel = row["layer"]
            if kernel not in known:
                listed = ", ".join(sorted(known))
                raise InputError(f"{tables / file}: layer {kernel!r}, expected one of {listed}")
            rows.setdefault(kernel, []).append((0, 0, size, 0, float(row["time_us"])))
    if (tables / "moe.csv").exists():
        for (size, activated), row in _rows(tables / "moe.csv", ("tokens", "activated_experts")):
            if not activated:
                raise InputError(f"{tables / 'moe.csv'}: activated_experts 0, expected at least 1")
            rows.setdefault("moe", []).append((0, 0, size, activated, float(row["time_us"])))
    if (tables / "skew.csv").exists():
        rows |= _skew(tables / "skew.csv")
    refuse_incomplete(rows, str(tables), (*REQUIRED, "sampler"))
    wanted = model or meta.get("model")
    if wanted is None:
        raise InputError(f"{folder}: meta.yaml names no model, expected --model")
    geometry = find_model(wanted)
    if geometry.weights.experts and "moe" not in rows:
        raise InputError(f"{tables}: no moe.csv, but {geometry.name} has experts")
    for kernel in ("gate_up_proj", "down_proj"):
        if "moe" not in rows and kernel not in rows:
            raise InputError(
                f"{tables / 'dense.csv'}: has no times of {kernel}, expected its MLP's"
            )
    device = device_called(meta.get("gpu", ""))
    written: dict[str, Any] = {
        "name": name,
        "gpu": device.name if device else meta.get("gpu", "unknown"),
        "model": geometry.name,
        "tp": tp,
        **shape(geometry),
        "kv_dtype": _kv_dtype(meta),
        "source": source or _source(meta),
    }
    if processors := multiprocessors or MULTIPROCESSORS.get(written["gpu"]):
        written["multiprocessors"] = processors
    if kernel_overlap:
        written["kernel_overlap"] = parse_kernel_overlap(kernel_overlap)
    if kernel_time:
        written["kernel_time"] = parse_kernel_time(kernel_time)
    if all_reduce and all_reduce.partition(",")[0].endswith(".csv"):
        file, _, said = all_reduce.partition(",source=")
        rows["all_reduce"] = [
            (0, 0, size, 0, float(row["time_us"])) for (size,), row in _rows(Path(file), ("bytes",))
        ]
        written["all_reduce_source"] = said or Path(file).name
    elif all_reduce:
        written["all_reduce"] = parse_all_reduce(all_reduce)
    return Profile(written, rows, str(folder))


def parse_kernel_overlap(text: str) -> tuple[float, str]:
    """`38us[,source=…]`: what kernels timed alone take too long, a layer and step."""
    body, _, source = text.partition(",source=")
    option = "--kernel-overlap"
    return parse_quantity(body, NANOSECONDS, option) / 1e9, source or f"{option} {body}"


def parse_kernel_time(text: str) -> tuple[float, str]:
    """`0.965[,source=…]`: share of their time alone that kernels take in an engine."""
    body, _, source = text.partition(",source=")
    try:
        share = float(body)
    except ValueError:
        share = 0.0
    if not 0 < share <= 10:
        raise InputError(f"--kernel-time {text}: expected a number above 0 and at most 10")
    return share, source or f"--kernel-time {body}"


def parse_all_reduce(text: str) -> tuple[dict[str, float], str]:
    """`small=11us+11.5GB/s,switch=640KiB,large=45us+15.9GB/s[,source=…]` as `all_reduce` takes it.

    Without small and switch one regime holds for every size.
    """
    body, _, source = text.partition(",source=")
    parts = dict(part.partition("=")[::2] for part in body.split(","))
    numbers: dict[str, float] = {"switch": 0.0}
    option = "--all-reduce"
    for regime in ("small", "large"):
        latency, plus, rate = parts.pop(regime, parts.get("large", "")).partition("+")
        if not plus:
            raise InputError(f"{option} {text}: expected large=LATENCY+BANDWIDTH, as 45us+15.9GB/s")
        numbers[f"{regime}_latency"] = parse_quantity(latency, NANOSECONDS, option) / 1e9
        numbers[f"{regime}_bandwidth"] = float(parse_quantity(rate, BYTES_PER_S, option))
    if switch := parts.pop("switch", None):
        numbers["switch"] = float(parse_quantity(switch, BYTES, option))
    if parts:
        raise InputError(f"{option}: {next(iter(parts))!r}, expected small, switch or large")
    return {k: numbers[k] for k in AllReduce._fields}, source or f"{option} {body}"


def _rows(
    file: Path, keys: tuple[str, ...], *texts: str
) -> list[tuple[tuple[int, ...], dict[str, str]]]:
    if not file.exists():
        raise InputError(f"{file}: no such file, expected a profile table")
    found = []
    seen: dict[tuple[str | int, ...], int] = {}
    for line, row in csv_rows(file, (*keys, *texts, "time_us")):
        sizes = tuple(int(_number(file, line, row, key, whole=True)) for key in keys)
        _number(file, line, row, "time_us", least=SHORTEST_US)
        what: tuple[str | int, ...] = (*(row[text] for text in texts), *sizes)
        if (earlier := seen.setdefault(what, line)) != line:
            said = ",".join(map(str, what))
            raise InputError(
                f"{file}: line {line}: {said} is there already, in line {earlier}; expected each "
                "size once"
            )
        found.append((sizes, row))
    return found


def _number(
    file: Path, line: int, row: dict[str, str], name: str, *, least: float = 0, whole: bool = False
) -> float:
    """The field, if it is a number from `least` to the largest of 31 bits."""
    value = number_in(row[name])
    if not least <= value < 2**31 or (whole and not row[name].strip().lstrip("+").isdecimal()):
        kind = "a whole number" if whole else "a number"
        expected = "above 0" if least else "of at least 0"
        raise InputError(
            f"{file}: line {line}: {name} is {shown(row[name])}, expected {kind} {expected} "
            "and below 2^31"
        )
    return value


def _skew(file: Path) -> dict[str, list[Row]]:
    """Decodes of unequal context: equal at the mean, equal at the longest, and as they are.

    `pure` rows are decodes alone, `mixed` ones stand beside a chunk.
    """
    rows: dict[str, list[Row]] = {}
    times_of = ("t_mean_us", "t_max_us", "t_skew_us")
    names = ("regime", "nb", "n", "kv_big", "kv_mean", "pc", "kp", "kvs", *times_of)
    for line, row in csv_rows(file, names):
        if row["regime"] not in ("pure", "mixed"):
            raise InputError(
                f"{file}: line {line}: regime is {shown(row['regime'])}, expected pure or mixed"
            )
        pure = row["regime"] == "pure"
        few, n, longest, first, second = (
            int(_number(file, line, row, name, whole=True))
            for name in ("nb", "n", "kv_big", *(("nb", "kvs") if pure else ("pc", "kp")))
        )
        mean = round(_number(file, line, row, "kv_mean"))
        times = [_number(file, line, row, name) for name in times_of]
        made: list[tuple[str, Row]]
        if pure:
            made = [
                ("skew_mean", (first, second, n, mean, times[0])),
                ("skew_max", (first, second, n, longest, times[1])),
                ("skew_time", (first, second, n, longest, times[2])),
            ]
        else:
            made = [
                ("mixed_mean", (first, second, n, mean, times[0])),
                ("mixed_time", (first, second, few, longest, times[2])),
            ]
        for kernel, cells in made:
            rows.setdefault(kernel, []).append(cells)
    return rows


def _meta(folder: Path) -> dict[str, str]:
    """The plain `key: value` lines of meta.yaml, and the engine's kv_cache_dtype."""
    file = folder / "meta.yaml"
    if not file.exists():
        return {}
    lines = decoded(read_bytes(file), str(file)).splitlines()
    pairs = [line.partition(": ") for line in lines]
    return {
        k.strip(): v.strip().strip("'\"")
        for k, _, v in pairs
        if v and (k[:1].isalpha() or k.strip() == "kv_cache_dtype")
    }


def _kv_dtype(meta: dict[str, str]) -> str:
    """The KV cache's type that was profiled: the model's own, unless the variant names another."""
    kind = meta.get("kv_cache_dtype", "auto")
    known = next((name for name in KV_TYPES if kind.startswith(name)), None)
    return known or "auto"


def _source(meta: dict[str, str]) -> str:
    parts = [
        f"{label} {meta[key]}"
        for label, key in (("vLLM", "vllm_version"), ("CUDA", "cuda_version"), ("on", "gpu"))
        if key in meta
    ]
    when = meta.get("profiled_at", "")[:10]
    return ", ".join(["LLMServingSim profiler", *parts, *([when] if when else [])])
