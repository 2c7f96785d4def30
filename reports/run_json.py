"""The shape of `run.json`, version 1, as far as a report needs it. Unknown fields are let through.

Numbers are strict: NaN and infinity are refused, absent values are null.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Whole = Annotated[int, Field(strict=True)]  # neither true nor "1" nor 1.0
Version = Annotated[int, Field(strict=True, ge=1, le=1)]
Bytes = Annotated[int, Field(strict=True, ge=0)]


class Part(BaseModel):
    """Frozen, and lenient towards what newer producers add."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Metric(Part):
    """One number about a run, with its definition. `value` is null where it is undefined."""

    name: str
    label: str
    unit: str
    formula: str
    value: Number | None


class LedgerLine(Part):
    """A share of the device's memory and why it is taken."""

    name: str
    bytes: Whole
    why: str


class Constant(Part):
    """A constant of the cost model and where it comes from."""

    name: str
    value: Number | str | None
    unit: str
    source: str


class Cost(Part):
    name: str
    constants: tuple[Constant, ...] = ()
    warnings: tuple[str, ...] = ()


class TraceInfo(Part):
    """Provenance: what was read, and which rows were left out for which reason."""

    name: str
    source: str
    rows: Whole
    rows_read: Whole
    dropped: dict[str, Whole] = {}
    notes: tuple[str, ...] = ()


class Device(Part):
    name: str
    count: Whole = 1
    memory_bytes: Whole
    bandwidth_bytes_per_s: Number
    flops_per_s: Number


class ModelInfo(Part):
    name: str
    parameters: Whole | None = None
    layers: Whole | None = None
    kv_formula: str | None = None


class PolicyInfo(Part):
    """`limitation` says what a run gives up of the model's answers, by its policy or by how it
    stores KV; null: nothing. `stored_as` names the format where that is to blame."""

    spec: str
    options: dict[str, Any] = {}
    limitation: str | None = None
    stored_as: str | None = None


class LayerGroup(Part):
    """Layers that keep the same tokens, and what one token takes in them on one device."""

    kind: str
    layers: Whole
    window: Whole | None
    payload_bytes: Whole
    scale_bytes: Whole


class PoolInfo(Part):
    """The KV budget, from the ledger's last line."""

    capacity_bytes: Whole
    token_bytes: Whole
    max_len: Whole
    state_bytes: Whole = 0  # of a sequence, whatever its length
    groups: tuple[LayerGroup, ...] = ()


class Capacity(Part):
    """How many requests of each length the KV budget holds at once: (tokens, requests)."""

    label: str
    points: tuple[tuple[Whole, Whole], ...]


class Pressure(Part):
    """What gives way where memory is short."""

    preemption: str
    victim: str
    swap_space_bytes: Bytes = 0


def _known(limits: dict[str, Any]) -> dict[str, Any]:
    """The limits, those that a report words of their own shape and the others plain values."""
    for name, value in limits.items():
        if name == "pressure":
            Pressure.model_validate(value)
        elif name == "rules":
            if not isinstance(value, dict):
                raise ValueError("rules: expected an object")
        elif not isinstance(value, str | int | float | None):
            raise ValueError(f"{name}: expected a text or a number")
    longest = limits.get("max_model_len", 1)
    if type(longest) is not int or longest < 1:
        raise ValueError("max_model_len: expected a whole number of at least 1")
    return limits


Limits = Annotated[dict[str, Any], AfterValidator(_known)]


class WarmUp(Part):
    """What the metrics leave out: requests that arrived before an instant."""

    asked: str
    end_s: Number
    requests: Whole


class Level(Part):
    """A service level, as it was asked for."""

    text: str


class ClosedLoop(Part):
    """Users who wait for their answers; `paced`: and for the stamps."""

    users: Whole
    paced: bool = False


class RunInfo(Part):
    """Everything that `run.json` says."""

    schema_version: Version
    kvtwin_version: str
    versions: dict[str, str]
    kind: Literal["simulated", "measured"]
    name: str
    command: str
    trace: TraceInfo
    model: ModelInfo
    device: Device
    policy: PolicyInfo
    limits: Limits
    ledger: tuple[LedgerLine, ...]
    pool: PoolInfo
    cost: Cost
    engine: str | None = None
    seed: Whole | None = None
    capacity: tuple[Capacity, ...] = ()
    order: Whole | None = None  # position among the runs of one command
    closed_loop: ClosedLoop | None = None
    horizon_s: Number | None = None  # where it was stopped, whoever waited
    warm_up: WarmUp | None = None
    service_level: Level | None = None
    replay: Literal["answers", "stamps"] | None = None  # of a trace with sessions
    replicas: Whole = 1  # independent engines; all have the device's ledger, the pool is their sum
    data_parallel: Whole = 1  # engines in lockstep that share experts
    router: str | None = None  # in front of several
    counted: tuple[str, ...] = ()  # metrics that a measured engine counted itself
    metrics: tuple[Metric, ...]
