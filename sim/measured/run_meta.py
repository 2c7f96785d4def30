"""The shape of a measured run's meta.json, as far as a prediction reads it; null means absent."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(strict=True, ge=1, le=2**53)]
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
Text = Annotated[str, Field(strict=True)]


class _Part(BaseModel):
    """Lenient towards what engines record besides."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Hardware(_Part):
    """Where it ran."""

    device_name: Text | None = None


class KvCache(_Part):
    """The cache as the engine sized it."""

    num_gpu_blocks: Count | None = None
    block_size: Count | None = None
    gpu_memory_utilization: Share | None = None
    kv_cache_memory_bytes: Count | None = None


class EngineOptions(_Part):
    """What the engine was started with."""

    model: Text | None = None
    tensor_parallel_size: Count | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    max_model_len: Count | None = None
    dtype: Text | None = None
    kv_cache_dtype: Text | None = None
    gpu_memory_utilization: Share | None = None


class Resolved(_Part):
    """The engine's own configuration, as it resolved what it was started with."""

    scheduler_config: dict[str, Any] | None = None
    cache_config: dict[str, Any] | None = None
    parallel_config: dict[str, Any] | None = None
    compilation_config: dict[str, Any] | None = None
    of_model: dict[str, Any] | None = Field(None, alias="model_config")


class Meta(_Part):
    """The whole file."""

    schema_version: Annotated[int, Field(strict=True, ge=1, le=1)] | None = None
    model: Text | None = None
    vllm_version: Text | None = None
    num_requests: Count | None = None
    hardware: Hardware | None = None
    kv_cache: KvCache | None = None
    engine_kwargs: EngineOptions | None = None
    resolved_config: Resolved | None = None
    num_preemptions: Annotated[int, Field(strict=True, ge=0, le=2**53)] | None = None
    prefix_cache_hit_tokens: Annotated[int, Field(strict=True, ge=0, le=2**53)] | None = None
