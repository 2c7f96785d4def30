"""The tables of docs/accuracy.md that replay the shipped runs."""

from statistics import median

from benchmarks.recorded.markdown import markdown
from benchmarks.recorded.replay import MEANS, RUNS, Change, reduce, replay
from sim.cost.kernels.profile import find_profile, shipped_profiles
from sim.cost.kernels.skew import waits_beside_chunks
from sim.hardware import find_device
from sim.measured.comparison import Error
from sim.memory.ledger import kv_budget
from sim.model.presets import find_model
from sim.run.engine_presets import VLLM_0_19

PUBLISHED = {"RTX 4090": (0.5, 0.4, 0.5), "2 × RTX PRO 6000": (-1.0, -0.7, -0.8)}
OLD_REDUCE = (7e-6, 10.5e9, 655_360, 39.3e-6, 17.3e9)
LINK = (20e-6, 16e9, 0, 20e-6, 16e9)  # what the benchmark's own config.json says of the link
NO_SKEW = "vllm-0.19:length_skew=false"
CHANGES = {
    "lengths only: prompts share nothing": Change(prefixes="none"),
    "no wait for the longest, neither kind": Change(engine=NO_SKEW),
    "no wait beside a chunk": Change(without_rows=("mixed_",)),
    "no wait among decodes alone": Change(without_rows=("skew_",)),
    "waits as the rows have them, not for one repetition": Change(repeated=True),
    "kernels as slow as when profiled": Change(meta={"kernel_time": None}),
    "all-reduce in two regimes": Change(without_rows=("all_reduce",), meta=reduce(*OLD_REDUCE)),
    "no all-reduce": Change(engine="vllm-0.19:all_reduce=false"),
    "no graph padding": Change(engine="vllm-0.19:padded_to=0"),
    "products interpolated, not in tiles": Change(engine="vllm-0.19:whole_tiles=false"),
    "planned in step, not ahead": Change(engine="vllm-0.19:async_scheduling=false"),
    "no prefix caching": Change(engine="vllm-0.19:prefix_caching=false"),
    "no whole-prompt reservation": Change(engine="vllm-0.19:reserve_whole_prompt=false"),
    "preempted to the back": Change(engine="vllm-0.19:preempted_first=false"),
    "blank blocks used first, as vLLM 0.32 does": Change(engine="vllm-0.19:oldest_first=false"),
    "no null block": Change(engine="vllm-0.19:null_blocks=0"),
    "1 ms of host work a step": Change(engine="vllm-0.19:host_overhead_s=1e-3"),
}


def pct(error: Error) -> str:
    """A signed error, marked where it misses."""
    value = "n/a" if error.error_pct is None else f"{error.error_pct:+.2f} %"
    return value + ("" if error.within else " **miss**")


def errors(gpu: str) -> str:
    """Every metric of one run: as shipped, and without what the aim rests on."""
    columns = [
        replay(gpu, change)[1]
        for change in (
            Change(),
            Change(prefixes="none"),
            Change(engine=NO_SKEW),
            Change(roofline=True),
        )
    ]
    published = dict(zip(MEANS, PUBLISHED[gpu], strict=False))
    rows = []
    for name, error in columns[0].items():
        limit = "" if error.tolerance_pct is None else f"±{error.tolerance_pct:g} %"
        theirs = f"{published[name]:+.1f} %" if name in published else ""
        cells = [pct(column[name]) for column in columns]
        rows.append([error.label, f"{error.measured:,.2f} {error.unit}", *cells, limit, theirs])
    header = ["metric", "measured", "predicted", "lengths only", "no skew", "roofline"]
    return markdown([*header, "tolerance", "LLMServingSim"], rows)


def contributions() -> str:
    """Each change alone, in the means' own per cent."""
    base = {gpu: replay(gpu)[1] for gpu in RUNS}
    rows = []
    for label, change in CHANGES.items():
        cells = []
        for gpu in RUNS:
            _, found = replay(gpu, change)
            moved = [100 * (found[m].predicted / base[gpu][m].predicted - 1) for m in MEANS]
            cells.append(" / ".join(f"{x:+.2f}" for x in moved))
        rows.append([label, *cells])
    what = "TTFT / TPOT / E2E / makespan / running, %"
    return markdown(["change", *(f"{gpu}: {what}" for gpu in RUNS)], rows)


def waits() -> str:
    """Nanoseconds a key above the mean, over decodes and over chunks, of every shipped profile."""
    rows = []
    sizes = (8, 16, 32, 64), (16, 64, 256, 1024)
    for name in shipped_profiles():
        found = waits_beside_chunks(find_profile(name))
        cells = [f"{1e3 * median(wait for *_, wait in found):.0f}", f"{len(found):,}"]
        for axis in (0, 1):
            for size in sizes[axis]:
                some = [wait[2] for wait in found if wait[axis] == size]
                cells.append(f"{1e3 * median(some):.0f}")
        rows.append([name, *cells])
    header = ["profile", "all", "rows", *(f"n = {n}" for n in sizes[0])]
    return markdown([*header, *(f"chunk {c:,}" for c in sizes[1])], rows)


def blocks() -> str:
    """The RTX 4090 run's KV blocks, by the ledger alone."""
    ledger = kv_budget(find_model("llama-3.1-8b"), find_device("rtx-4090"))
    count = ledger.kv_bytes // (16 * ledger.token_bytes)
    kept = VLLM_0_19.adapt_ledger(ledger).kv_bytes // (16 * ledger.token_bytes)
    rows = [[line.name, f"{line.size_bytes:,}", line.why] for line in ledger.lines]
    rows.append(["blocks", f"{count:,}", f"2,588 measured: {100 * (count / 2588 - 1):+.1f} %"])
    rows.append(["of them handed out", f"{kept:,}", "the engine keeps one"])
    return markdown(["part", "bytes", "why"], rows)


def crossed() -> str:
    """Without any number fitted on these runs."""
    cases = {
        ("RTX 4090", "kernels as slow as when profiled"): Change(meta={"kernel_time": None}),
        (
            "2 × RTX PRO 6000",
            "all-reduce of 20 µs + 16 GB/s, as in the benchmark's own config.json",
        ): Change(without_rows=("all_reduce",), meta=reduce(*LINK)),
        ("2 × RTX PRO 6000", "the package's assumption"): Change(
            without_rows=("all_reduce",), meta={"all_reduce": None}
        ),
    }
    rows = []
    for (gpu, note), change in cases.items():
        _, found = replay(gpu, change)
        values = [found[m].error_pct or 0.0 for m in MEANS[:3]]
        rows.append([gpu, note, " / ".join(f"{x:+.1f}" for x in values)])
    return markdown(["run", "instead of what was fitted on it", "TTFT / TPOT / E2E, %"], rows)
