"""The cost table: what `kvtwin calibrate` measured on a device, as one JSON file.

All times are of whole steps in seconds, so that each can be repeated with a stopwatch:

    dense    steps of so many tokens, attention left out, one token sampled
    sampling what so many samples add to that (0 or less for none)
    decode   steps in which `batch` requests of `context` tokens each write one more
    prefill  steps that prefill one chunk of `tokens` after `past` tokens, one token sampled

`decode` and `prefill` come once a policy, because layouts differ in what reading them costs.
Context and past count tokens that are kept: `kept_tokens` is the most a sequence keeps (null: all).
"""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sim.hardware import Device
from sim.model.geometry import Model
from workloads.errors import InputError
from workloads.incoming import checked, read_json

SCHEMA_VERSION = 1
Version = Annotated[int, Field(strict=True, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]

LONGEST_STEP_S = 1e6
Seconds = Annotated[float, Field(strict=True, ge=-LONGEST_STEP_S, le=LONGEST_STEP_S)]
Duration = Annotated[float, Field(strict=True, gt=0, le=LONGEST_STEP_S)]
Count = Annotated[int, Field(strict=True, ge=1, le=2**60)]
Size = Annotated[int, Field(strict=True, ge=1, le=2**20)]  # of a batch or chunk
Knots = Annotated[tuple[Count, ...], Field(min_length=1)]
Whole = Annotated[int, Field(strict=True, ge=0, le=2**60)]
FromZero = Annotated[tuple[Whole, ...], Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _check(knots: tuple[int, ...], seconds: tuple[float, ...]) -> None:
    """Raise ValueError where there isn't one time for each of ascending knots."""
    if len(seconds) != len(knots):
        raise ValueError(f"{len(knots)} knots and {len(seconds)} seconds, expected as many")
    if any(low >= high for low, high in pairwise(knots)):
        raise ValueError("expected ascending knots")


class Line(_Part):
    """Times over one axis; knots ascend."""

    knots: FromZero
    seconds: tuple[Seconds, ...]

    @model_validator(mode="after")
    def _is_a_line(self) -> Self:
        _check(self.knots, self.seconds)
        return self


class DecodeLine(_Part):
    """Steps of one batch size, by context."""

    batch: Size
    context: Knots
    seconds: tuple[Duration, ...]

    @model_validator(mode="after")
    def _is_a_line(self) -> Self:
        _check(self.context, self.seconds)
        return self


class PrefillLine(_Part):
    """Steps of one chunk length, by tokens before it."""

    tokens: Size
    past: FromZero
    seconds: tuple[Duration, ...]

    @model_validator(mode="after")
    def _is_a_line(self) -> Self:
        _check(self.past, self.seconds)
        return self


class Section(_Part):
    """What depends on where KV lies and how it is stored."""

    policy: str
    kv_dtype: str
    token_bytes: Count
    kept_tokens: Count | None
    decode: Annotated[tuple[DecodeLine, ...], Field(min_length=1)]
    prefill: Annotated[tuple[PrefillLine, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        for name, sizes in (
            ("decode: batch", [line.batch for line in self.decode]),
            ("prefill: tokens", [line.tokens for line in self.prefill]),
        ):
            if any(low >= high for low, high in pairwise(sizes)):
                raise ValueError(f"{name}: expected ascending lines, each size once")
        return self


class Hardware(_Part):
    """The device and what the same process measured of it."""

    kind: Literal["cpu", "cuda"]
    name: str
    threads: Count
    memory_bytes: Count
    copy_bytes_per_s: Count  # read and written
    host_bytes_per_s: Count | None = None  # to host memory, one direction
    matmul_flops_per_s: Count
    clock: str  # what times are: wall time, or CPU time of the computing thread


class ModelKey(_Part):
    """The model that was timed."""

    name: str
    parameters: Count
    dtype_bytes: Count
    windows: FromZero | None = None  # of all layers, ascending, 0 without one; null: not known

    @classmethod
    def of(cls, model: Model) -> Self:
        """The model's key."""
        windows = (group.window or 0 for group in model.groups for _ in range(group.layers))
        return cls(
            name=model.name,
            parameters=model.parameters,
            dtype_bytes=model.dtype_bytes,
            windows=tuple(sorted(windows)),
        )

    def fits(self, other: Self) -> bool:
        """Whether steps of the other take as long, by what is known of both."""
        sizes = (self.parameters, self.dtype_bytes) == (other.parameters, other.dtype_bytes)
        return sizes and (self.windows is None or self.windows == other.windows)


class CostTable(_Part):
    """The whole file."""

    schema_version: Version
    kind: Literal["kvtwin cost table"]
    created_at: str
    versions: dict[str, str]
    hardware: Hardware
    model: ModelKey
    method: str
    elapsed_s: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
    dense: Line
    sampling: Line
    sections: Annotated[tuple[Section, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if min(self.dense.seconds) <= 0:
            raise ValueError("dense: expected seconds above 0")
        return self

    @model_validator(mode="after")
    def _says_each_once(self) -> Self:
        named = [(section.policy, section.kv_dtype) for section in self.sections]
        for policy, kv_dtype in named:
            if named.count((policy, kv_dtype)) > 1:
                raise ValueError(f"sections: {policy} ({kv_dtype}) is there twice")
        return self

    def device(self) -> Device:
        """The device as the ledger and reports know devices: by what was measured of it."""
        measured = self.hardware
        return Device(
            measured.name,
            measured.memory_bytes,
            measured.copy_bytes_per_s,
            measured.matmul_flops_per_s,
            measured.host_bytes_per_s or measured.copy_bytes_per_s,
            measured.copy_bytes_per_s,
            "measured by kvtwin calibrate",
            "as the system reports it",
        )


def read_table(file: Path, instead: str = "expected a file of kvtwin calibrate") -> CostTable:
    """The table in the file. Raises InputError in one line, naming the field at fault.

    `instead` is what it says of a file that can't be read: what else the option takes.
    """
    if _is_parquet(file):
        raise InputError(
            f"--cost {file}: is a Parquet file; expected --profile {file} if it is a kernel profile"
        )
    try:
        content = read_json(file, f"--cost {file}")
    except InputError as error:
        raise InputError(f"{error}; {instead}") from None
    return checked(CostTable, content, f"--cost {file}")


def _is_parquet(file: Path) -> bool:
    try:
        with file.open("rb") as content:
            return content.read(4) == b"PAR1"
    except OSError:  # read_json says why
        return False
