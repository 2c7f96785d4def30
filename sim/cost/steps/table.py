"""The cost table: what `kvtwin calibrate` measured on a device, as one JSON file.

All times are of whole steps in seconds, so that each can be repeated with a stopwatch:

    dense    steps of so many tokens, attention left out, one token sampled
    sampling what so many samples add to that (0 or less for none)
    decode   steps in which `batch` requests of `context` tokens each write one more
    prefill  steps that prefill one chunk of `tokens` after `past` tokens, one token sampled

`decode` and `prefill` come once a policy, because layouts differ in what reading them costs.
Context and past count tokens that are kept: `kept_tokens` is the most a sequence keeps (null: all).
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sim.hardware import Device
from workloads.errors import InputError

SCHEMA_VERSION = 1

Seconds = Annotated[float, Field(allow_inf_nan=False)]
Duration = Annotated[float, Field(allow_inf_nan=False, gt=0)]
Knots = Annotated[tuple[int, ...], Field(min_length=1)]


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

    knots: Knots
    seconds: tuple[Seconds, ...]

    @model_validator(mode="after")
    def _is_a_line(self) -> Self:
        _check(self.knots, self.seconds)
        return self


class DecodeLine(_Part):
    """Steps of one batch size, by context."""

    batch: int
    context: Knots
    seconds: tuple[Duration, ...]

    @model_validator(mode="after")
    def _is_a_line(self) -> Self:
        _check(self.context, self.seconds)
        return self


class PrefillLine(_Part):
    """Steps of one chunk length, by tokens before it."""

    tokens: int
    past: Knots
    seconds: tuple[Duration, ...]

    @model_validator(mode="after")
    def _is_a_line(self) -> Self:
        _check(self.past, self.seconds)
        return self


class Section(_Part):
    """What depends on where KV lies and how it is stored."""

    policy: str
    kv_dtype: str
    token_bytes: int
    kept_tokens: int | None
    decode: tuple[DecodeLine, ...]
    prefill: tuple[PrefillLine, ...]


class Hardware(_Part):
    """The device and what the same process measured of it."""

    kind: Literal["cpu", "cuda"]
    name: str
    threads: int
    memory_bytes: int
    copy_bytes_per_s: int  # read and written
    matmul_flops_per_s: int
    clock: str  # what times are: wall time, or CPU time of the computing thread


class ModelKey(_Part):
    """The model that was timed."""

    name: str
    parameters: int
    dtype_bytes: int


class CostTable(_Part):
    """The whole file."""

    schema_version: Literal[1]
    kind: Literal["kvtwin cost table"]
    created_at: str
    versions: dict[str, str]
    hardware: Hardware
    model: ModelKey
    method: str
    elapsed_s: Seconds
    dense: Line
    sampling: Line
    sections: Annotated[tuple[Section, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if min(self.dense.seconds) <= 0:
            raise ValueError("dense: expected seconds above 0")
        return self

    def device(self) -> Device:
        """The device as the ledger and reports know devices: by what was measured of it."""
        measured = self.hardware
        return Device(
            measured.name,
            measured.memory_bytes,
            measured.copy_bytes_per_s,
            measured.matmul_flops_per_s,
            measured.copy_bytes_per_s,
            measured.copy_bytes_per_s,
            "measured by kvtwin calibrate",
            "as the system reports it",
        )


def read_table(file: Path) -> CostTable:
    """The table in the file. Raises InputError in one line, naming the field at fault."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"--cost {file}: {why}; expected roofline, table or a file of kvtwin calibrate"
        ) from None
    try:
        return CostTable.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise InputError(f"--cost {file}: {field}: {first['msg'].lower()}") from None
