"""What files hold, read by the test itself: plain Python, nothing of kvtwin.

Each reader returns what there is to count, or raises Refused. What kvtwin accepts must be accepted
here, with the same counts; what it refuses may be fine (it knows more rules).
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


class Refused(Exception):
    """The file isn't what it should be."""


def need(holds: object, what: object = "") -> None:
    if not holds:
        raise Refused(what)


def strict_json(content: bytes) -> Any:
    """UTF-8, finite numbers of at most 40 digits, each key once, at most 64 levels."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        need(len({key for key, _ in pairs}) == len(pairs), "a key twice")
        return dict(pairs)

    def whole(text: str) -> int:
        need(len(text.lstrip("-")) <= 40, "digits")
        return int(text)

    def finite(text: str) -> float:
        need(math.isfinite(float(text)), text)
        return float(text)

    def no_number(text: str) -> float:
        raise Refused(text)

    try:
        value = json.loads(
            content.decode("utf-8-sig"),
            object_pairs_hook=once,
            parse_int=whole,
            parse_float=finite,
            parse_constant=no_number,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from None
    need(_depth(value) <= 64, "depth")
    return _whole_text(value)


def _whole_text(value: Any) -> Any:
    """Halves of surrogate pairs, which nothing can write, become the sign for what is no sign."""
    if isinstance(value, dict):
        return {_whole_text(key): _whole_text(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole_text(part) for part in value]
    return re.sub("[\ud800-\udfff]", "\ufffd", value) if isinstance(value, str) else value


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def is_count(value: Any, least: int = 1) -> bool:
    return type(value) is int and value >= least


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def text_number(text: str) -> float:
    """A number as a table of text holds one."""
    need(re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", text), text)
    return float(text)


def rows_of(content: bytes) -> list[dict[str, str]]:
    """A CSV's rows by column."""
    try:
        rows = [r for r in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")) if r]
    except (ValueError, csv.Error) as error:
        raise Refused(str(error)) from None
    need(rows)
    need(all(len(row) == len(rows[0]) for row in rows), "fields")
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


# -- models ---------------------------------------------------------------------------------------


def config(content: bytes) -> tuple[int, int]:
    """Parameters and KV bytes a token of a llama's config.json."""
    found = strict_json(content)
    need(isinstance(found, dict))
    need(found.get("model_type") in (None, "llama"), "model_type")
    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
    hidden, mlp, heads, layers = (found.get(name) for name in names)
    vocabulary = found.get("vocab_size")
    for count in (hidden, mlp, heads, layers, vocabulary, found.get("max_position_embeddings")):
        need(is_count(count), count)
    kv_heads = found.get("num_key_value_heads") or heads
    need(is_count(kv_heads))
    need(heads % kv_heads == 0)
    need(hidden % heads == 0)
    kind = found.get("dtype") or found.get("torch_dtype")
    sizes = {None: 2, "bfloat16": 2, "float16": 2, "float32": 4, "auto": 2}
    need(kind in sizes if isinstance(kind, str | None) else False, kind)
    wide, narrow = hidden, kv_heads * (hidden // heads)
    layer = 2 * hidden * wide + 2 * hidden * narrow + 3 * hidden * mlp + 2 * hidden
    parameters = 2 * vocabulary * hidden + layers * layer + hidden
    return parameters, 2 * layers * narrow * sizes[kind]


def index_bytes(content: bytes) -> int:
    """The size that a checkpoint's index says."""
    found = strict_json(content)
    need(isinstance(found, dict) and isinstance(found.get("metadata"), dict))
    total = found["metadata"].get("total_size")
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    need(is_count(total))
    return int(total)


# -- times ----------------------------------------------------------------------------------------


def cost_table(content: bytes) -> dict[str, Any]:
    """The table, each field as docs and module say it."""
    table = strict_json(content)

    def line(part: Any, axis: str, least: int, positive: bool) -> None:
        need(isinstance(part, dict))
        knots, seconds = part.get(axis), part.get("seconds")
        need(isinstance(knots, list) and isinstance(seconds, list) and len(knots) == len(seconds))
        need(knots and all(is_count(knot, least) for knot in knots))
        need(all(low < high for low, high in pairwise(knots)))
        need(all(is_number(s) and (s > 0 or not positive) for s in seconds))

    need(isinstance(table, dict))
    need(table.get("schema_version") == 1 and type(table["schema_version"]) is int)
    need(table.get("kind") == "kvtwin cost table")
    need(is_number(table.get("elapsed_s")))
    for name in ("memory_bytes", "copy_bytes_per_s", "matmul_flops_per_s", "threads"):
        need(isinstance(table.get("hardware"), dict) and is_count(table["hardware"].get(name)))
    for name in ("parameters", "dtype_bytes"):
        need(isinstance(table.get("model"), dict) and is_count(table["model"].get(name)))
    windows = table["model"].get("windows")
    need(windows is None or (isinstance(windows, list) and windows))
    need(all(is_count(window, 0) for window in windows or ()))
    line(table.get("dense"), "knots", 0, positive=True)
    line(table.get("sampling"), "knots", 0, positive=False)
    need(isinstance(table.get("sections"), list) and table["sections"])
    for section in table["sections"]:
        need(isinstance(section, dict))
        need(isinstance(section.get("policy"), str) and isinstance(section.get("kv_dtype"), str))
        need(is_count(section.get("token_bytes")) and "kept_tokens" in section)
        need(section["kept_tokens"] is None or is_count(section["kept_tokens"]))
        for name, size, axis, least in (
            ("decode", "batch", "context", 1),
            ("prefill", "tokens", "past", 0),
        ):
            lines = section.get(name)
            need(isinstance(lines, list) and lines)
            for each in lines:
                line(each, axis, least, positive=True)
                need(is_count(each.get(size)))
            need(all(a[size] < b[size] for a, b in pairwise(lines)))
    return dict(table)


def columns(table: pa.Table, wanted: dict[str, Callable[[Any], bool]]) -> dict[str, list[Any]]:
    """Columns of which every value is as wanted."""
    found = {}
    for name, fits in wanted.items():
        need(table.column_names.count(name) == 1, name)
        found[name] = table[name].to_pylist()
        need(all(fits(value) for value in found[name]), name)
    return found


def parquet(path: Any) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise Refused(str(error)) from None


def profile(path: Any) -> list[tuple[Any, ...]]:
    """Rows of a profile."""
    table = parquet(path)
    meta = strict_json((table.schema.metadata or {}).get(b"kvtwin.profile", b""))
    need(isinstance(meta, dict) and type(meta.get("schema_version")) is int)
    for name in ("name", "gpu", "model", "source"):
        need(isinstance(meta.get(name), str), name)
    need(is_count(meta.get("tp")))

    def is_size(value: Any) -> bool:
        return is_count(value, 0)

    sizes = dict.fromkeys(("chunk", "earlier", "n", "context"), is_size)
    found = columns(
        table,
        {
            "kernel": lambda value: isinstance(value, str),
            **sizes,
            "time_us": lambda value: is_number(value) and value > 0,
        },
    )
    rows = list(zip(*found.values(), strict=True))
    need({"attention", "qkv_proj", "o_proj", "lm_head"} <= set(found["kernel"]))
    return sorted(rows)


def kernel_csv(content: bytes, sizes: Iterable[str]) -> list[tuple[float, ...]]:
    """Sizes and microseconds of a profiler's CSV."""
    found = []
    for row in rows_of(content):
        need({*sizes, "time_us"} <= set(row))
        need(all(re.fullmatch(r"\s*\+?[0-9]+\s*", row[size]) for size in sizes), row)
        time = text_number(row["time_us"])
        need(0 < time < math.inf)
        found.append((*(int(row[size]) for size in sizes), time))
    return sorted(found)


def measured_table(path: Any) -> None:
    """One of NVIDIA's tables: sizes that its kind is read by, and times."""
    table = parquet(path)
    sizes = {
        "gemm_perf": ("m", "n", "k"),
        "generation_attention_perf": ("batch_size", "step", "num_heads", "head_dim"),
        "context_attention_perf": ("batch_size", "isl", "num_heads", "head_dim"),
    }[path.stem]
    kinds = dict.fromkeys(sizes, lambda value: is_count(value, 0))
    columns(table, {**kinds, "latency": lambda value: is_number(value) and value > 0})


# -- recorded runs --------------------------------------------------------------------------------


def bench(content: bytes) -> list[tuple[int, int, float]]:
    """Prompt, output and seconds from first to last token of requests that got a token."""
    found = strict_json(content)
    need(isinstance(found, dict))
    names = ("input_lens", "output_lens", "ttfts", "itls", "start_times")
    need(all(isinstance(found.get(name), list) for name in names))
    errors = found.get("errors") or [""] * len(found["ttfts"])
    need(isinstance(errors, list) and len({*(len(found[n]) for n in names), len(errors)}) == 1)
    need(isinstance(found.get("model_id"), str | None))
    kept = []
    for row in zip(*(found[name] for name in names), errors, strict=True):
        prompt, output, first, gaps, start, error = row
        need(is_count(prompt, 0) and is_count(output, 0) and isinstance(error, str | None))
        need(all(is_number(t) and t >= 0 for t in (first, start)))
        need(not gaps or isinstance(gaps, list))
        need(all(is_number(gap) and gap >= 0 for gap in gaps or ()))
        if output and not error:
            need(prompt)
            kept.append((prompt, output, sum(gaps or ())))
    need(kept)
    return sorted(kept)


def recorded(content: bytes) -> list[tuple[int, int, float]]:
    """The same of requests.jsonl."""
    rows = [strict_json(line) for line in content.split(b"\n") if line.strip()]
    found = []
    for row in rows:
        need(isinstance(row, dict))
        prompt, output = row.get("input_toks"), row.get("output_toks")
        need(is_number(prompt) and prompt == int(prompt) >= 1)
        need(is_number(output) and output == int(output) >= 1)
        stamps = [row.get(f"{name}_ts") for name in ("queued", "first_token", "last_token")]
        need(all(is_number(stamp) and stamp >= 0 for stamp in [*stamps, row.get("arrival_time")]))
        need(stamps[1] <= stamps[2])
        found.append((int(prompt), int(output), stamps[2] - stamps[1]))
    need(found)
    return sorted(found)


def series(content: bytes) -> list[tuple[float, ...]]:
    """Samples of timeseries.csv."""
    found = []
    for row in rows_of(content):
        names = ("t", "running", "waiting", "kv_cache_pct")
        need(set(names) <= set(row))
        found.append(tuple(text_number(row[name]) for name in names))
        need(min(found[-1]) >= 0 and max(found[-1]) < math.inf)
    return found


def hash_ids(content: bytes) -> list[int]:
    """How many blocks each line of a file of prefixes names."""
    rows = [strict_json(line) for line in content.split(b"\n") if line.strip()]
    for row in rows:
        need(isinstance(row, dict) and isinstance(row.get("hash_ids"), list))
        need(all(is_count(one, 0) for one in row["hash_ids"]))
    return [len(row["hash_ids"]) for row in rows]


def meta(content: bytes) -> dict[str, Any]:
    """meta.json, of which only what a prediction reads has a type."""
    found = strict_json(content)
    need(isinstance(found, dict))
    for place, name, fits in (
        ("kv_cache", "num_gpu_blocks", is_count),
        ("kv_cache", "block_size", is_count),
        ("engine_kwargs", "tensor_parallel_size", is_count),
        ("engine_kwargs", "max_num_seqs", is_count),
        ("engine_kwargs", "max_num_batched_tokens", is_count),
        ("engine_kwargs", "gpu_memory_utilization", lambda v: is_number(v) and 0 < v <= 1),
        ("engine_kwargs", "model", lambda v: isinstance(v, str)),
        ("hardware", "device_name", lambda v: isinstance(v, str)),
    ):
        part = found.get(place)
        need(isinstance(part, dict | None), place)
        value = (part or {}).get(name)
        need(value is None or fits(value), name)
    return dict(found)


# -- run folders ----------------------------------------------------------------------------------

TEXTS = (
    "kvtwin_version", "kind", "name", "command", "trace/name", "trace/source", "model/name",
    "device/name", "policy/spec", "cost/name",
)  # fmt: skip
WHOLES = (
    "schema_version", "trace/rows", "trace/rows_read", "device/memory_bytes",
    "pool/capacity_bytes", "pool/token_bytes", "pool/max_len",
)  # fmt: skip


def run_json(content: bytes) -> tuple[int, list[tuple[str, Any]]]:
    """Rows of the trace, and metrics by name."""
    found = strict_json(content)

    def at(path: str) -> Any:
        value = found
        for name in path.split("/"):
            need(isinstance(value, dict) and name in value, path)
            value = value[name]
        return value

    for path in TEXTS:
        need(isinstance(at(path), str), path)
    for path in WHOLES:
        need(type(at(path)) is int, path)
    need(found["schema_version"] == 1)
    need(is_number(at("device/bandwidth_bytes_per_s")) and is_number(at("device/flops_per_s")))
    for path in ("ledger", "metrics"):
        need(isinstance(at(path), list) and all(isinstance(row, dict) for row in at(path)), path)
    for row in found["ledger"]:
        need(isinstance(row.get("name"), str) and isinstance(row.get("why"), str))
        need(type(row.get("bytes")) is int)
    for row in found["metrics"]:
        for name in ("name", "label", "unit", "formula"):
            need(isinstance(row.get(name), str), name)
        need("value" in row and (row["value"] is None or is_number(row["value"])))
    return found["trace"]["rows"], [(row["name"], row["value"]) for row in found["metrics"]]


def judged(content: bytes) -> list[tuple[Any, ...]]:
    """Rows of a validation.json."""
    found = strict_json(content)
    need(isinstance(found, dict) and type(found.get("passed")) is bool)
    need(found.get("schema_version") == 1 and type(found["schema_version"]) is int)
    need(type(found.get("repeats")) is int and isinstance(found.get("rows"), list))
    rows = []
    for row in found["rows"]:
        need(isinstance(row, dict) and all(isinstance(row.get(n), str) for n in ("policy", "name")))
        numbers = [row.get(n, "absent") for n in ("predicted", "measured", "error_percent")]
        need(all(number is None or is_number(number) for number in numbers))
        need("passed" in row and type(row["passed"]) in (bool, type(None)))
        rows.append((row["policy"], row["name"], *numbers, row["passed"]))
    return rows
