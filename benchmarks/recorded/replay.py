"""One prediction of one shipped run, changed in one respect, and its errors."""

from dataclasses import dataclass, field, replace
from typing import Any

from sim.cost.kernels.profile import Profile, find_profile
from sim.cost.kernels.skew import repetitions
from sim.measured.comparison import Error, compare
from sim.measured.prediction import prediction
from sim.measured.prefixes import with_prefixes
from sim.measured.read import read_measured
from sim.run.engine_presets import find_engine
from sim.run.simulation import Run, execute

RUNS = {
    "RTX 4090": ("rtx-4090-llama-3.1-8b", "rtx-4090", "rtx-4090-llama-3.1-8b-tp1"),
    "2 × RTX PRO 6000": ("rtx-pro-6000-qwen3-32b", "rtx-pro-6000", "rtx-pro-6000-qwen3-32b-tp2"),
}
MEANS = ("ttft_ms_mean", "tpot_ms_mean", "e2el_ms_mean", "makespan_s", "running_mean")
FIELDS = ("small_latency", "small_bandwidth", "switch", "large_latency", "large_bandwidth")


@dataclass(frozen=True)
class Change:
    """What differs from the shipped prediction; nothing by default."""

    engine: str = "vllm-0.19"
    prefixes: str | None = None
    roofline: bool = False
    without_rows: tuple[str, ...] = ()  # kernels of the profile to leave out
    repeated: bool = False  # the skew rows as if each held one repetition
    meta: dict[str, Any] = field(default_factory=dict)  # of the profile; None takes away


def replay(gpu: str, change: Change | None = None) -> tuple[Run, dict[str, Error]]:
    """The run on that device predicted, and its errors by metric."""
    c = change or Change()
    name, device, profile_name = RUNS[gpu]
    measured = with_prefixes(read_measured(name), c.prefixes)
    setup = prediction(
        measured,
        gpu=device,
        engine=find_engine(c.engine),
        cost="roofline" if c.roofline else "table",
        profile=None if c.roofline else changed(find_profile(profile_name), c),
    )
    run = execute(setup)
    return run, {error.name: error for error in compare(measured, run)}


def changed(profile: Profile, change: Change) -> Profile:
    """The profile without some rows, with other numbers of its own."""
    out = change.without_rows
    rows = {k: v for k, v in profile.rows.items() if not k.startswith(out)}
    if change.repeated:
        times = repetitions(profile)
        for kernel in ("mixed_mean", "mixed_time"):
            rows[kernel] = [(a, b, c, d, time * times) for a, b, c, d, time in rows[kernel]]
    meta = {k: v for k, v in {**profile.meta, **change.meta}.items() if v is not None}
    return replace(profile, rows=rows, meta=meta)


def reduce(*numbers: float) -> dict[str, Any]:
    """An all-reduce in a profile's words: seconds, bytes/s and bytes."""
    return {"all_reduce": (dict(zip(FIELDS, numbers, strict=True)), "benchmarks/accuracy.py")}
