"""A kernel profile: measured times of one layer's kernels, as docs/profiles.md describes it."""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sim.model.geometry import Model
from workloads.columns import Kind, read_columns
from workloads.errors import InputError
from workloads.incoming import checked, parse_json, shown
from workloads.write import replacing

SCHEMA_VERSION = 2
META_KEY = b"kvtwin.profile"
COLUMNS = ("kernel", "chunk", "earlier", "n", "context", "time_us")
GEMMS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
PER_LAYER = {*GEMMS, "act_fn", "rotary_emb", "qk_norm", "moe", "layernorm", "kv_write"}
PER_STEP = {"embedding", "final_layernorm"}
PER_SEQUENCE = {"lm_head", "sampler"}
KV_TYPES = ("fp8", "int8")
"""Types of the KV cache other than the model's own, which is called "auto"."""
REQUIRED = ("attention", "qkv_proj", "o_proj", "lm_head")

PAIRED = (("skew_mean", "skew_max", "skew_time"), ("mixed_mean", "mixed_time"))
"""Measurements of one batch each, row by row."""

KINDS: dict[str, Kind] = {
    "kernel": "text",
    **dict.fromkeys(COLUMNS[1:5], "whole"),
    "time_us": "number",
}

Row = tuple[int, int, int, int, float]


@dataclass(frozen=True, slots=True)
class Profile:
    """Rows by kernel: (chunk, earlier, n, context, µs). `n` counts tokens or sequences."""

    meta: dict[str, Any]
    rows: dict[str, list[Row]]
    label: str

    @property
    def name(self) -> str:
        """What `--profile` calls it."""
        return str(self.meta["name"])


def scaled(rows: dict[str, list[Row]], share: float) -> dict[str, list[Row]]:
    """Rows that take that share of their time; sums over GPUs are no kernel of the profile's."""
    if share == 1:
        return rows
    return {
        kernel: own
        if kernel == "all_reduce"
        else [(a, b, c, d, time * share) for a, b, c, d, time in own]
        for kernel, own in rows.items()
    }


OF_OLDER = {"dtype_bytes": 2, "weights_in": ""}
"""What profiles that don't say were timed with."""


def shape(model: Model) -> dict[str, int | str]:
    """What of a model decides its kernels' times, layers apart: models equal in it share them."""
    group = model.groups[0]
    return {
        "hidden_size": model.hidden_size,
        "num_heads": model.num_heads,
        "kv_heads": group.kv_heads,
        "head_dim": group.head_dim,
        "intermediate_size": model.intermediate_size,
        "vocab_size": model.vocab_size,
        "dtype_bytes": model.dtype_bytes,
        "weights_in": ", ".join(f"{x.field} {x.bits}/{x.weights}" for x in model.weights.stored),
    }


def write_profile(profile: Profile, path: Path) -> None:
    """One Parquet file; its metadata says what was measured, on what and by whom."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for kernel, rows in profile.rows.items():
        for row in rows:
            for name, value in zip(COLUMNS, (kernel, *row), strict=True):
                columns[name].append(value)
    arrays = [
        pa.array(columns["kernel"]).dictionary_encode(),
        *(pa.array(columns[name], pa.int32()) for name in COLUMNS[1:5]),
        pa.array(columns["time_us"], pa.float64()),
    ]
    table = pa.table(dict(zip(COLUMNS, arrays, strict=True)))
    meta = json.dumps({"schema_version": SCHEMA_VERSION, **profile.meta}, allow_nan=False)
    table = table.replace_schema_metadata({META_KEY: meta.encode()})
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        pq.write_table(table, file, compression="zstd", compression_level=19)


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the package."""
    folder = files("sim.cost").joinpath("profiles")
    return sorted(f.name[: -len(".parquet")] for f in folder.iterdir() if f.name[-8:] == ".parquet")


def find_profile(name_or_path: str) -> Profile:
    """The shipped profile of that name, or the file. Raises InputError in one line."""
    if name_or_path in shipped_profiles():
        return _read(_shipped(name_or_path))
    path = Path(name_or_path)
    if path.is_dir():
        raise InputError(
            f"--profile {path}: a folder; `kvtwin profiles convert {path} -o FILE` makes a profile"
        )
    if not path.exists():
        known = ", ".join(shipped_profiles())
        raise InputError(f"--profile {path}: no such file nor shipped profile; those are: {known}")
    return _read(path)


def profile_for(gpu: str, model: str, tp: int) -> Profile | None:
    """The shipped profile of this device, model and degree, if there is one."""
    for name in shipped_profiles():
        meta = profile_meta(name)
        if (meta["gpu"], meta["model"], meta["tp"]) == (gpu, model, tp):
            return find_profile(name)
    return None


def profile_meta(name: str) -> dict[str, Any]:
    """What a shipped profile says of itself, without reading its times."""
    schema = pq.read_schema(_shipped(name))
    meta: dict[str, Any] = json.loads(schema.metadata[META_KEY])
    return meta


def _shipped(name: str) -> Path:
    return Path(str(files("sim.cost").joinpath(f"profiles/{name}.parquet")))


def _read(path: Path) -> Profile:
    columns, metadata = read_columns(path, KINDS, "a file that `kvtwin profiles convert` wrote")
    if META_KEY not in metadata:
        raise InputError(
            f"{path}: no profile metadata, expected a file that `kvtwin profiles convert` wrote"
        )
    try:
        meta = parse_json(metadata[META_KEY])
    except ValueError as error:
        raise InputError(f"{path}: metadata: {error}") from None
    version = meta.get("schema_version") if isinstance(meta, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version is {shown(version)}, expected {SCHEMA_VERSION}: "
            "convert its folder anew"
        )
    from sim.cost.kernels.profile_meta import Meta  # late: most runs read no profile

    checked(Meta, meta, f"{path}: metadata")
    _check_rows(path, columns)
    rows: dict[str, list[Row]] = {}
    numbers = [columns[name].tolist() for name in COLUMNS]
    for kernel, *row in zip(*numbers, strict=True):
        rows.setdefault(kernel, []).append((row[0], row[1], row[2], row[3], row[4]))
    refuse_incomplete(rows, str(path))
    return Profile(meta, rows, str(path))


def refuse_incomplete(
    rows: dict[str, list[Row]], label: str, required: tuple[str, ...] = REQUIRED
) -> None:
    """Raise InputError without times of a kernel, or of decodes or chunks by themselves."""
    for kernel in required:
        if kernel not in rows:
            raise InputError(f"{label}: has no times of {kernel}, expected {', '.join(required)}")
    for what, missing in (
        ("decodes without a chunk", not any(r[0] == 0 and r[1] == 0 for r in rows["attention"])),
        ("chunks without decodes", not any(r[0] and not r[2] for r in rows["attention"])),
    ):
        if missing:
            raise InputError(f"{label}: has no attention times of {what}")


def _check_rows(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    """Raise InputError unless times are positive, sizes no less than 0 and none there twice."""
    for name in COLUMNS[1:]:
        least = columns[name].min(initial=1)
        if least < 0 or (name == "time_us" and least <= 0):
            expected = "above 0" if name == "time_us" else "of at least 0"
            raise InputError(f"{path}: column {name!r}: {least}, expected numbers {expected}")
    keys = zip(*(columns[name].tolist() for name in COLUMNS[:-1]), strict=True)
    seen = set()
    for number, key in enumerate(keys, 1):
        if key in seen and not key[0].startswith(("skew_", "mixed_")):
            raise InputError(f"{path}: row {number}: {key[0]} of this size is there twice")
        seen.add(key)
    kernels = columns["kernel"].tolist()
    for group in PAIRED:
        if len({kernels.count(kernel) for kernel in group}) > 1:
            raise InputError(f"{path}: {', '.join(group)} differ in rows, expected as many of each")
