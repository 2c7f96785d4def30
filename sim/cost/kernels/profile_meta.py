"""What a kernel profile's metadata must hold, as pydantic checks it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(strict=True, ge=1, le=2**31)]
Amount = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
NotBelowZero = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class AllReduceNumbers(BaseModel):
    """What `sim.cost.kernels.all_reduce` takes."""

    small_latency: Amount
    small_bandwidth: Amount
    switch: NotBelowZero
    large_latency: Amount
    large_bandwidth: Amount


class Meta(BaseModel):
    """What a profile says of itself; other fields are let through."""

    model_config = ConfigDict(extra="allow")

    name: str
    gpu: str
    model: str
    source: str
    tp: Count
    hidden_size: Count | None = None
    num_heads: Count | None = None
    dtype_bytes: Count = 2
    weights_in: str = ""  # bits of each class of weights that isn't in the model's type
    multiprocessors: Count | None = None
    kv_dtype: str = "auto"
    computed: list[str] = []  # kernels that nobody timed
    kernel_time: tuple[Annotated[float, Field(gt=0, le=10)], str] | None = None
    kernel_overlap: tuple[NotBelowZero, str] | None = None
    all_reduce: tuple[AllReduceNumbers, str] | None = None
