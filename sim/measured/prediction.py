"""The simulation that a measured run calls for: its requests, its engine, its device."""

from dataclasses import replace

from sim.cost.kernels.profile import Profile, find_profile
from sim.hardware import find_device
from sim.measured.run import Measured
from sim.model.presets import find_model
from sim.run.engine_presets import Engine, find_engine
from sim.run.simulation import Cost, Setup, prepare
from workloads.errors import InputError

SAMPLE_S = 1.0  # as the recorders of measured runs do


def prediction(
    measured: Measured,
    *,
    model: str | None = None,
    gpu: str | None = None,
    tp: int | None = None,
    engine: Engine | str | None = None,
    cost: Cost | None = None,
    profile: Profile | str | None = None,
) -> Setup:
    """Ready to execute. What isn't given is taken from the run's own meta.json.

    Of the requests it knows arrivals, lengths and, where the run tells them, prompts' blocks.
    Without a profile the shipped one for model, device and degree is used, else the roofline.
    Raises InputError where model or device are named nowhere.
    """
    options = measured.engine_options
    if isinstance(profile, str):
        profile = find_profile(profile)
    chosen = model or options.get("model") or measured.meta.get("model")
    device = gpu or measured.gpu or (str(profile.meta["gpu"]) if profile else None)
    for option, value in (("--model", chosen), ("--gpu", device)):
        if value is None:
            raise InputError(f"{measured.name}: meta.json doesn't say; expected {option}")
    if gpu and measured.gpu and find_device(gpu).name != measured.gpu:
        raise InputError(f"--gpu {gpu}: {measured.name} was measured on {measured.gpu}")
    geometry = find_model(str(chosen))
    degree = tp or int(options.get("tensor_parallel_size") or 1)
    if profile is None and cost is None:
        from sim.cost.kernels.profile import profile_for

        profile = profile_for(find_device(str(device)).name, geometry.name, degree)
    blocks = measured.blocks
    kv_type = str(options.get("kv_cache_dtype") or "auto")
    setup = prepare(
        measured.trace,
        model=geometry,
        gpu=str(device),
        policy="paging",
        tp=degree,
        max_num_seqs=int(options.get("max_num_seqs") or 256),
        max_num_batched_tokens=int(options.get("max_num_batched_tokens") or 2048),
        max_model_len=options.get("max_model_len"),
        kv_cache_dtype=kv_type,
        gpu_memory_utilization=_utilization(measured),
        kv_cache_memory_bytes=None
        if blocks is None
        else blocks * measured.block_tokens * geometry.kv_bytes_per_token(tp=degree),
        engine=engine or _engine(measured),
        cost=cost,
        profile=profile,
    )
    return replace(setup, interval_s=SAMPLE_S)


def _engine(measured: Measured) -> Engine:
    version = str(measured.meta.get("vllm_version", ""))
    if not version:
        raise InputError(f"{measured.name}: meta.json names no engine version; expected --engine")
    return find_engine("vllm-" + ".".join(version.split(".")[:2]))


def _utilization(measured: Measured) -> float:
    recorded = measured.meta.get("kv_cache", {}).get("gpu_memory_utilization")
    return float(measured.engine_options.get("gpu_memory_utilization") or recorded or 0.9)
