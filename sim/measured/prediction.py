"""The simulation that a measured run calls for: its requests, its engine, its device."""

from dataclasses import replace
from pathlib import Path

from sim.cost.kernels.profile import Profile, find_profile
from sim.cost.steps.table import CostTable, read_table
from sim.engine.closed_loop import ClosedLoop
from sim.hardware import find_device
from sim.measured.contradictions import engine_of, refuse_another_run
from sim.measured.options import Options, server_options
from sim.measured.run import CONFIG, STEPS, Measured
from sim.model.config_fields import DTYPE_BYTES
from sim.model.geometry import Model
from sim.model.kv_formats import kv_format
from sim.model.presets import find_model
from sim.run.engine_presets import ENGINES, Engine, find_engine
from sim.run.simulation import Setup, prepare
from workloads.errors import InputError

SAMPLE_S = 1.0  # as the recorders of measured runs do


def prediction(
    measured: Measured,
    *,
    model: str | None = None,
    gpu: str | None = None,
    tp: int | None = None,
    engine: Engine | str | None = None,
    cost: CostTable | Path | str | None = None,
    profile: Profile | str | None = None,
    options: Options | None = None,
) -> Setup:
    """Ready to execute. What isn't given is taken from the run's own meta.json.

    Of the requests it knows arrivals, lengths and, where the run tells them, prompts' blocks.
    Without costs those beside the record are used, else the shipped profile for model, device and
    degree, else the roofline.
    Raises InputError where model or device are named nowhere, or the server isn't modelled.
    """
    told = options or server_options(measured)
    if isinstance(profile, str):
        profile = find_profile(profile)
    if cost is None and profile is None:
        cost = measured.beside(STEPS)
    if isinstance(cost, Path) or cost not in (None, "roofline", "table"):
        instead = "expected roofline, table or a file of kvtwin calibrate"
        cost = cost if isinstance(cost, CostTable) else read_table(Path(cost), instead)
    chosen = model or measured.beside(CONFIG) or told["model"]
    named = gpu or measured.gpu or (str(profile.meta["gpu"]) if profile else None)
    refuse_another_run(measured, told, model=model, gpu=gpu, tp=tp, cost=cost)
    device = find_device(named) if named else None
    if device is None and isinstance(cost, CostTable):
        device = cost.device()
    for what, value in (
        ("which model; expected --model", chosen),
        ("on which GPU; expected --gpu", device),
    ):
        if value is None:
            raise InputError(f"{measured.silence()} {what}")
    assert device is not None
    preset = _engine(measured, engine, told)
    geometry = _geometry(measured, chosen, told, preset)
    degree = told.number("tensor_parallel_size", 1) if tp is None else tp
    assert degree is not None
    if profile is None and cost is None:
        from sim.cost.kernels.profile import profile_for

        profile = profile_for(device.name, geometry.name, degree)
    kv_type = _kv_type(str(told["kv_cache_dtype"] or "auto"))
    token_bytes = geometry.kv_bytes_per_token(kv_format(geometry, kv_type), degree)
    memory = told.number("kv_cache_memory_bytes")
    if (blocks := told.number("num_gpu_blocks")) is not None:
        sized = replace(preset, block_size=_block_tokens(measured, told))
        memory = blocks * sized.block_bytes(geometry, token_bytes)
    setup = prepare(
        measured.trace,
        model=geometry,
        gpu=device,
        policy="paging",
        tp=degree,
        max_num_seqs=told.number("max_num_seqs"),
        max_num_batched_tokens=told.number(
            "max_num_scheduled_tokens", told.number("max_num_batched_tokens")
        ),
        long_prefill_token_threshold=told.number("long_prefill_token_threshold") or 0,
        max_model_len=told.number("max_model_len"),
        kv_cache_dtype=kv_type,
        gpu_memory_utilization=told.share("gpu_memory_utilization", 0.9),
        kv_cache_memory=memory,
        engine=preset,
        cost=cost,
        profile=profile,
    )
    return replace(setup, interval_s=SAMPLE_S, closed=closed_loop(told))


def _geometry(measured: Measured, chosen: str | Path, told: Options, engine: Engine) -> Model:
    """The model in the type that the server computed in. Raises InputError where it can't be."""
    named = str(told["dtype"] or "auto").removeprefix("torch.")
    named = {"half": "float16", "float": "float32"}.get(named, named)
    who = told.origins.get("dtype")
    if named not in DTYPE_BYTES:
        known = ", ".join(DTYPE_BYTES)
        raise InputError(f"{measured.name}: {who} says dtype {named}; expected one of {known}")
    size = DTYPE_BYTES[named]
    model = find_model(str(chosen), engine.casts if named == "auto" else size == 2)
    if named != "auto" and model.dtype_bytes != size:
        raise InputError(
            f"{measured.name}: {who} says dtype {named} of {size} B, but {model.name} is in types "
            f"of {model.dtype_bytes} B; expected --model with a config.json in {named}"
        )
    return model


def _block_tokens(measured: Measured, told: Options) -> int:
    size = told.number("block_size", measured.block_tokens) or 0
    if size < 1:
        raise InputError(f"{told.origins['block_size']}: block_size is {size}, expected at least 1")
    return size


def _engine(measured: Measured, engine: Engine | str | None, told: Options) -> Engine:
    """The preset of that name or of the recorded version, switched as the server was."""
    if engine is None:
        version = str(told["vllm_version"] or "")
        if not version:
            raise InputError(
                f"{measured.silence()} which version served; expected --engine, such as "
                "vllm-0.19, or --server-log"
            )
        engine = engine_of(version)
        if engine not in ENGINES:
            known = ", ".join(name for name in ENGINES if name.startswith("vllm-"))
            raise InputError(
                f"{measured.name}: {told.origins['vllm_version']} says vllm_version {version}, "
                f"whose rules aren't known; expected --engine with the closest of {known}"
            )
    preset = find_engine(engine) if isinstance(engine, str) else engine
    block_tokens = _block_tokens(measured, told)
    own = preset.name.partition(":")[2]  # what the spec itself says goes before the record
    if block_tokens != preset.block_size and "block_size" not in own:
        preset = replace(preset, block_size=block_tokens)
    if told["enable_prefix_caching"] is False and "prefix_caching" not in own:
        preset = replace(preset, prefix_caching=False)
    graphs = told.number("max_cudagraph_capture_size")
    if told["enforce_eager"] is True:
        graphs = 0
    if graphs is not None and "padded_to" not in own:
        preset = replace(preset, kernels=replace(preset.kernels, padded_to=graphs))
    if told["disable_hybrid_kv_cache_manager"] is True and "window_groups" not in own:
        preset = replace(preset, window_groups=False)
    if told["async_scheduling"] is False and "async_scheduling" not in own:
        preset = replace(preset, rules=replace(preset.rules, async_scheduling=False))
    return preset


def closed_loop(told: Options) -> ClosedLoop | None:
    """So many requests in flight, where the client kept that many and no rate beside it."""
    users = told.number("max_concurrency")
    if users is None or float(told["request_rate"] or "inf") != float("inf"):
        return None
    if users < 1:
        raise InputError(f"max_concurrency {users}: expected at least 1")
    return ClosedLoop(users)


def _kv_type(named: str) -> str:
    """vLLM's name of the KV cache's type as `--kv-cache-dtype` takes it."""
    for prefix, name in (("fp8", "fp8"), ("bfloat16", "bf16"), ("float16", "fp16")):
        if named.startswith(prefix):
            return name
    return named
