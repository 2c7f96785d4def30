"""A kernel profile: measured times of one layer's kernels, as docs/profiles.md describes it."""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sim.model.geometry import Model
from workloads.errors import InputError

SCHEMA_VERSION = 2
META_KEY = b"kvtwin.profile"
COLUMNS = ("kernel", "chunk", "earlier", "n", "context", "time_us")
GEMMS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
PER_LAYER = {*GEMMS, "act_fn", "rotary_emb", "qk_norm", "moe", "layernorm"}
PER_STEP = {"embedding", "final_layernorm"}
PER_SEQUENCE = {"lm_head", "sampler"}
KV_TYPES = ("fp8", "int8")
"""Types of the KV cache other than the model's own, which is called "auto"."""
REQUIRED = ("attention", "qkv_proj", "o_proj", "lm_head")

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


def shape(model: Model) -> dict[str, int]:
    """What of a model decides its kernels' times, layers apart: models equal in it share them."""
    group = model.groups[0]
    return {
        "hidden_size": model.hidden_size,
        "num_heads": model.num_heads,
        "kv_heads": group.kv_heads,
        "head_dim": group.head_dim,
        "intermediate_size": model.intermediate_size,
        "vocab_size": model.vocab_size,
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
    try:
        pq.write_table(table, path, compression="zstd", compression_level=19)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror or error}") from None


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
    try:
        with pq.ParquetFile(path) as file:  # read_table would load what data sets need
            table = file.read()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: {reason}, expected a Parquet file") from None
    written = (table.schema.metadata or {}).get(META_KEY)
    absent = [name for name in COLUMNS if name not in table.column_names]
    if written is None or absent:
        what = f"no column {absent[0]!r}" if absent else "no profile metadata"
        raise InputError(f"{path}: {what}, expected a file that `kvtwin profiles convert` wrote")
    meta = json.loads(written)
    if meta.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version is {meta.get('schema_version')}, expected {SCHEMA_VERSION}: "
            "convert its folder anew"
        )
    rows: dict[str, list[Row]] = {}
    kernels = table["kernel"].combine_chunks()
    names = kernels.dictionary.to_pylist()
    numbers = [table[name].to_numpy().tolist() for name in COLUMNS[1:]]
    for code, *row in zip(kernels.indices.to_numpy().tolist(), *numbers, strict=True):
        rows.setdefault(names[code], []).append((row[0], row[1], row[2], row[3], row[4]))
    for kernel in REQUIRED:
        if kernel not in rows:
            raise InputError(f"{path}: has no times of {kernel}, expected {', '.join(REQUIRED)}")
    for what, missing in (
        ("decodes without a chunk", not any(r[0] == 0 and r[1] == 0 for r in rows["attention"])),
        ("chunks without decodes", not any(r[0] and not r[2] for r in rows["attention"])),
    ):
        if missing:
            raise InputError(f"{path}: has no attention times of {what}")
    return Profile(meta, rows, str(path))
