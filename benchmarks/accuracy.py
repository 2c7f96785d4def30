"""Every table of docs/accuracy.md, computed again: `python benchmarks/accuracy.py`.

Both shipped runs are replayed about sixty times; that takes about a minute.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from sim.cost.kernels.all_reduce import all_reduce
from sim.cost.kernels.profile import Profile, find_profile
from sim.hardware import find_device
from sim.measured.comparison import Error, compare
from sim.measured.prediction import prediction
from sim.measured.prefixes import with_prefixes
from sim.measured.read import read_measured
from sim.memory.ledger import kv_budget
from sim.model.presets import find_model
from sim.run.engine_presets import VLLM_0_19, find_engine
from sim.run.simulation import Run, execute

RUNS = {
    "RTX 4090": ("rtx-4090-llama-3.1-8b", "rtx-4090", "rtx-4090-llama-3.1-8b-tp1"),
    "2 × RTX PRO 6000": ("rtx-pro-6000-qwen3-32b", "rtx-pro-6000", "rtx-pro-6000-qwen3-32b-tp2"),
}
MEANS = ("ttft_ms_mean", "tpot_ms_mean", "e2el_ms_mean", "makespan_s", "running_mean")
PUBLISHED = {"RTX 4090": (0.6, 0.2, 0.5), "2 × RTX PRO 6000": (1.3, 0.8, 1.0)}
NO_SKEW = "vllm-0.19:length_skew=false"
LINK = (20e-6, 16e9, 0, 20e-6, 16e9)  # what the benchmark's own config.json says of the link
FIELDS = ("small_latency", "small_bandwidth", "switch", "large_latency", "large_bandwidth")

Reduce = tuple[float, float, float, float, float]


def replay(
    gpu: str,
    *,
    engine: str = "vllm-0.19",
    prefixes: str | None = None,
    reduce: Reduce | None = None,
    assumed: bool = False,
    roofline: bool = False,
) -> tuple[Run, dict[str, Error]]:
    """One prediction of one run, and its errors by name."""
    name, device, profile_name = RUNS[gpu]
    measured = with_prefixes(read_measured(name), prefixes)
    profile: Profile | None = None
    if not roofline:
        profile = find_profile(profile_name)
        meta = dict(profile.meta)
        if assumed:
            meta.pop("all_reduce", None)
        if reduce is not None:
            meta["all_reduce"] = dict(zip(FIELDS, reduce, strict=True)), "benchmarks/accuracy.py"
            all_reduce(*meta["all_reduce"])
        profile = replace(profile, meta=meta)
    setup = prediction(
        measured,
        gpu=device,
        engine=find_engine(engine),
        cost="roofline" if roofline else "table",
        profile=profile,
    )
    run = execute(setup)
    return run, {error.name: error for error in compare(measured, run)}


def pct(value: float | None) -> str:
    return "n/a" if value is None else f"{value:+.2f} %"


def table(header: list[str], rows: Iterator[list[str]]) -> None:
    print("| " + " | ".join(header) + " |")
    print("|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def errors() -> None:
    print("## Errors\n")
    for gpu in RUNS:
        print(f"### {gpu}\n")
        columns = [
            replay(gpu)[1],
            replay(gpu, engine=NO_SKEW)[1],
            replay(gpu, prefixes="none")[1],
            replay(gpu, roofline=True)[1],
        ]

        def rows(gpu: str = gpu, columns: list[dict[str, Error]] = columns) -> Iterator[list[str]]:
            published = dict(zip(MEANS, PUBLISHED[gpu], strict=False))
            for name, error in columns[0].items():
                limit = "" if error.tolerance_pct is None else f"±{error.tolerance_pct:g} %"
                cells = [
                    pct(c[name].error_pct) + ("" if c[name].within else " **miss**")
                    for c in columns
                ]
                theirs = f"{published[name]:+.1f} %" if name in published else ""
                yield [error.label, f"{error.measured:.4f} {error.unit}", *cells, limit, theirs]

        header = ["metric", "measured", "predicted", "without skew", "lengths only", "roofline"]
        table([*header, "tolerance", "published simulator"], rows())


def ablation() -> None:
    print("## What each effect contributes\n")
    base = {gpu: replay(gpu)[1] for gpu in RUNS}
    changes: list[tuple[str, dict[str, object]]] = [
        ("no prefix caching (its own blocks after preemption)", {"engine": "prefix_caching=false"}),
        ("planned in step, not ahead", {"engine": "async_scheduling=false"}),
        ("no whole-prompt reservation", {"engine": "reserve_whole_prompt=false"}),
        ("admitting in a step that preempted", {"engine": "admit_after_preemption=true"}),
        ("preempted to the back", {"engine": "preempted_first=false"}),
        ("no null block", {"engine": "null_blocks=0"}),
        ("no graph padding", {"engine": "padded_to=0"}),
        ("GEMM interpolated, not in tiles", {"engine": "whole_tiles=false"}),
        ("no all-reduce", {"engine": "all_reduce=false"}),
        ("one all-reduce regime (45 µs, 15.9 GB/s)", {"reduce": (45e-6, 15.9e9, 0, 45e-6, 15.9e9)}),
        ("no length skew", {"engine": "length_skew=false"}),
        ("with host overhead 1 ms a step", {"engine": "host_overhead_s=1e-3"}),
        ("lengths only, prompts share nothing", {"prefixes": "none"}),
    ]

    def rows() -> Iterator[list[str]]:
        for label, change in changes:
            if "engine" in change:
                change = {"engine": f"vllm-0.19:{change['engine']}"}
            cells = []
            for gpu in RUNS:
                run, found = replay(gpu, **change)  # type: ignore[arg-type]
                moved = [100 * (found[m].predicted / base[gpu][m].predicted - 1) for m in MEANS]
                cells += [" / ".join(f"{x:+.2f}" for x in moved)]
                cells += [str(int(run.log.requests["preemptions"].sum()))]
            yield [label, *cells]

    what = "TTFT / TPOT / E2E / makespan / running, %"
    header = ["change"]
    for gpu in RUNS:
        header += [f"{gpu}: {what}", "preemptions"]
    table(header, rows())


def cross() -> None:
    print("## Cross-prediction\n")
    first, second = RUNS
    cases: list[tuple[str, str, str, dict[str, object]]] = [
        (f"{second}: all-reduce", first, "none of it is used at TP 1", {}),
        (f"{first}: nothing to fit", second, "all-reduce of 20 µs + 16 GB/s", {"reduce": LINK}),
        (f"{first}: nothing to fit", second, "the package's assumption", {"assumed": True}),
    ]

    def rows() -> Iterator[list[str]]:
        for fitted, target, note, change in cases:
            cells = []
            for prefixes in (None, "none"):
                _, found = replay(target, prefixes=prefixes, **change)  # type: ignore[arg-type]
                worst = max(abs(found[m].error_pct or 0) for m in MEANS[:3])
                verdict = "" if worst <= 2 else " **miss**"
                values = [found[m].error_pct or 0 for m in MEANS[:3]]
                cells.append(" / ".join(f"{x:+.1f}" for x in values) + verdict)
            yield [fitted, target, note, *cells]

    header = ["fitted on", "predicts", "", "TTFT / TPOT / E2E, %", "lengths only"]
    table(header, rows())


def blocks() -> None:
    print("## KV blocks of the RTX 4090 run\n")
    ledger = kv_budget(find_model("llama-3.1-8b"), find_device("rtx-4090"))
    table(
        ["part", "bytes", "why"],
        ([line.name, f"{line.size_bytes:,}", line.why] for line in ledger.lines),
    )
    count = ledger.kv_bytes // (16 * ledger.token_bytes)
    print(f"{count:,} blocks predicted, 2,588 measured: {100 * (count / 2588 - 1):+.1f} %\n")
    kept = VLLM_0_19.adapt_ledger(ledger).kv_bytes // (16 * ledger.token_bytes)
    print(f"Of them {kept:,} are handed out: the engine keeps one.\n")


def wall() -> None:
    print("## Time\n")

    def rows() -> Iterator[list[str]]:
        for gpu, (name, device, _) in RUNS.items():
            command = [sys.executable, "-m", "sim.cli", "compare-run", name, "--gpu", device]
            times = []
            for _ in range(5):
                start = time.perf_counter()
                subprocess.run(command, capture_output=True, check=False)
                times.append(time.perf_counter() - start)
            yield [gpu, f"{min(times):.2f} s"]

    table(["`kvtwin compare-run`, whole command", "best of 5"], rows())


if __name__ == "__main__":
    for part in (errors, ablation, cross, blocks, wall):
        part()
