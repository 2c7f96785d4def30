"""Options of a run, spelled once: the command line's names, taken by Python too."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from sim.engine.limits import Batching, Preemption, Victim
from sim.run.routing import RouterName as Router
from sim.units import parse_bytes
from workloads.errors import InputError
from workloads.given import check_fields, is_whole, plain, said

if TYPE_CHECKING:
    from sim.cost.kernels.profile import Profile
    from sim.cost.steps.table import CostTable
    from sim.hardware import Device
    from sim.model.geometry import Model
    from sim.policy.spec import Policy
    from sim.run.costs import CostSpec
    from sim.run.engine_presets import Engine

    ModelLike: TypeAlias = Model | str | Path
    DeviceLike: TypeAlias = Device | str
    PolicyLike: TypeAlias = Policy | str
    EngineLike: TypeAlias = Engine | str
    ProfileLike: TypeAlias = Profile | str | Path
    CostLike: TypeAlias = CostTable | CostSpec | str | Path
    Size: TypeAlias = int | str
    WarmUpLike: TypeAlias = int | str
else:  # what a command line takes, and all that reading it needs to load
    ModelLike = DeviceLike = PolicyLike = EngineLike = ProfileLike = CostLike = Size = (
        WarmUpLike
    ) = str


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What decides where an engine's memory goes. Python may give the things that text names."""

    model: ModelLike
    """A preset (`kvtwin list models`) or the path of a Hugging Face config.json."""

    tp: int = 1
    """GPUs the model is divided over (tensor parallel)."""

    engine: EngineLike = "default"
    """How the engine schedules and runs kernels (`kvtwin list engines`)."""

    max_num_seqs: int | None = None
    """Most requests that run at once. Default: 256, or what --engine's server takes on the GPU."""

    max_num_batched_tokens: int | None = None
    """Most tokens a step computes; longer prompts are prefilled in chunks. Default: 2048, or what
    --engine's server takes on the GPU."""

    gpu_memory_utilization: float = 0.9
    """Share of the device's whole memory that the engine may use."""

    kv_cache_memory: Size | None = None
    """Size of the KV cache itself, such as 12GiB, instead of what is left over."""

    kv_cache_dtype: str = "auto"
    """How KV is stored: auto (the model's own type), fp16, bf16, fp8, int8 or int8_fp16."""

    def __post_init__(self) -> None:
        """Raises InputError for a value that isn't what its option takes."""
        check_fields(self, _instead)

    @property
    def kv_cache_memory_bytes(self) -> int | None:
        """Raises InputError for what is no size."""
        size = self.kv_cache_memory
        return None if size is None else size_bytes(size, "--kv-cache-memory")


@dataclass(frozen=True, kw_only=True)
class RunOptions(EngineOptions):
    """What decides a run beside its trace."""

    gpu: DeviceLike | None = None
    """A device (`kvtwin list gpus`), or one by numbers:
    custom:memory=48GiB,bandwidth=1.2TB/s,flops=200TFLOP/s. May be left out with a measured --cost.
    """

    policy: Annotated[PolicyLike, Parameter(parse=False)] = "paging"

    request_rate: float | None = None
    """Rescale arrivals to so many requests a second. Of sessions only the stamps they begin at
    follow it, turns wait for answers (see --replay)."""

    first: int | None = None
    """Take only so many requests of the trace."""

    columns: str | None = None
    """What the columns of a trace of any other format hold, such as
    arrival=startTime:iso,prompt=prompt_tokens,output=completion_tokens (docs/traces.md)."""

    concurrency: int | None = None
    """Keep so many requests in flight instead of asking at the trace's stamps; with a
    --request-rate, ask at the stamps but never let more be in flight. Of a trace with sessions:
    so many sessions at a time, which pause between turns as recorded."""

    users: int | None = None
    """So many users, each with one request or session at a time: ask, wait, think, ask again."""

    think_time: str | None = None
    """How long users think before each request: 10s, or exponential:10s for drawn times. Of a
    trace with sessions: before each session, whose turns keep their recorded pauses."""

    prefix_scope: Literal["recorded", "system"] = "recorded"
    """Of conversations whose block ids are their own: as "recorded", or with tools and "system"
    prompt shared by all that have them of the same length."""

    replay: Literal["answers", "stamps", "both"] = "answers"
    """Of a trace with sessions: turns wait for "answers", or come at the recorded "stamps"; "both":
    a run each, and what the client's waiting hides of the latency."""

    snapshot_start: bool = False
    """Enter every session of a trace at a moment drawn from its recorded life (--seed), instead of
    all at their first turns."""

    warm_up: WarmUpLike | None = None
    """Leave out of the metrics what arrives before this time, such as 300s, or so many requests."""

    arrivals: str | None = None
    """Draw arrivals anew at the --request-rate instead of the trace's own: poisson, gamma:cv=3,
    and what else `kvtwin traces generate --arrivals` has."""

    seed: int = 0
    """Of drawn think times, moments and arrivals."""

    samples: int = 1
    """Outputs asked of each prompt (OpenAI's n): so many requests that arrive together. With
    paging+prefix they share their prompt's full blocks."""

    long_prefill_token_threshold: int = 0
    """Longest chunk of a prompt while others run or wait. 0: what a step has left."""

    max_model_len: int | None = None
    """Longest context, prompt and output together. Default: the model's own."""

    batching: Batching = "continuous"
    """"continuous" as vLLM V1 does it, or "static", one whole batch after another."""

    preemption: Preemption = "recompute"
    """Where growth lacks memory: "recompute" a request's KV later, or "swap" it to host memory."""

    swap_space: Size = "4GiB"
    """Host memory per GPU for swapped KV. A request that finds no room there is recomputed."""

    victim: Victim = "last"
    """Who gives way: the request admitted "last", or that of "longest" or "shortest" context."""

    cost: CostLike | None = None
    """How long steps take: roofline, from a datasheet (the default), table, from measured kernel
    times, such as table:profile=FILE, a file of `kvtwin calibrate`, step times as measured, or
    fixed:seconds=0.03."""

    profile: ProfileLike | None = None
    """Kernel profile for --cost table: a shipped one (`kvtwin list profiles`) or a file."""

    horizon: float | None = None
    """Stop after so many simulated seconds; the rest stays unfinished."""

    replicas: int = 1
    """Independent engines, each on --tp GPUs with a cache of its own, behind a router."""

    router: Router = "round-robin"
    """Who serves a request: "round-robin", "least-loaded" (fewest unanswered requests), "session"
    (where its session went) or "prefix" (where most of its leading blocks went)."""

    data_parallel: int = 1
    """Engines that hold a model's experts together and take every step together, each on one GPU
    with a cache of its own, behind the router (vLLM's --data-parallel-size with
    --enable-expert-parallel)."""

    slo: str | None = None
    """Service level: ttft_p99=2s,tpot_p50=50ms,e2e_p90=30s. Adds goodput, the requests a second
    answered within it, and says whether it holds."""

    price: str | None = None
    """Dollars of a GPU-hour by device: h100=2.50/h,l4=0.70/h. Adds costs."""

    watts: str | None = None
    """Power that a GPU draws, by device: h100=700W. Adds energy."""

    fast_forward: bool = True
    """Take all steps of an unchanged batch as one event. Same results, much faster."""

    @property
    def swap_space_bytes(self) -> int:
        """Raises InputError for what is no size."""
        return size_bytes(self.swap_space, "--swap-space")


def check_option(name: str, value: Any) -> None:
    """Raises InputError for a value that isn't what the option of `RunOptions` takes."""
    if expected := _instead(name, value):
        raise InputError(f"{name} {said(value)}: expected {expected}")
    if expected is None:
        plain(name, value, RunOptions.__dataclass_fields__[name].type)


def size_bytes(size: Size, where: str) -> int:
    """Bytes of a number of them or of text such as 3.81GiB."""
    if isinstance(size, str):
        return parse_bytes(size, where)
    if isinstance(size, bool) or not isinstance(size, int):
        raise InputError(f"{where}={size}: expected whole bytes, or text such as 12GiB")
    return size


def _instead(name: str, value: Any) -> str | None:
    """What an option that takes more than plain values expects instead of this one; "" if it takes
    it, None for other options."""
    if name in ("kv_cache_memory", "swap_space"):
        return ""  # `size_bytes` says it
    if value is None and name in ("gpu", "cost", "profile"):
        return ""
    if name == "warm_up" and not isinstance(value, str | None):
        return "" if is_whole(value) else "text such as 300s, or a whole number of requests"
    if name in _TEXTS and value is not None and not isinstance(value, str):
        return f"text such as {_TEXTS[name]}"
    if name not in _THINGS:
        return None
    module, kind, expected = _THINGS[name]
    if isinstance(value, str):
        return ""
    if name in ("model", "profile", "cost") and isinstance(value, Path):
        return ""
    if name == "cost" and not isinstance(value, type) and callable(getattr(value, "model", None)):
        return ""
    if isinstance(value, getattr(import_module(module), kind)):
        return ""
    if name == "policy" and isinstance(value, list | tuple):
        return f"{expected}; sweep takes several"
    return f"{expected}, made: {value.__name__}(...)" if isinstance(value, type) else expected


_THINGS = {
    "model": ("sim.model.geometry", "Model", "a preset's name, a path or a Model"),
    "gpu": ("sim.hardware", "Device", "a preset's name, custom:memory=... or a Device"),
    "policy": ("sim.policy.spec", "Policy", "a policy such as Paging(16), or text"),
    "engine": ("sim.run.engine_presets", "Engine", "a preset's name or an Engine"),
    "profile": ("sim.cost.kernels.profile", "Profile", "a shipped one's name, a path or a Profile"),
    "cost": ("sim.cost.steps.table", "CostTable", "roofline, table, a path or a cost model"),
}
"""Options that take things beside their names: the module and name of what they take, in words."""

_TEXTS = {
    "columns": "arrival=startTime:iso,prompt=prompt_tokens,output=completion_tokens",
    "think_time": "10s",
    "arrivals": "poisson",
    "slo": "ttft_p99=2s,tpot_p50=50ms",
    "price": "h100=2.50/h,l4=0.70/h",
    "watts": "h100=700W",
    "kv_cache_dtype": "fp8",
}
