"""Kernels that only move bytes: where nobody timed them, and the rule where somebody did."""

from math import log

from benchmarks.recorded.markdown import markdown
from sim.cost.kernels.grid import Line
from sim.cost.kernels.profile import find_profile, shipped_profiles
from sim.cost.kernels.streams import streams, token_bytes
from sim.hardware import find_device
from sim.model.geometry import Model
from sim.model.presets import find_model

BATCHES = (1, 32, 256, 2048)
TIMED = ("layernorm", "act_fn", "rotary_emb", "qk_norm")


def small_kernels(model: Model) -> str:
    """What NVIDIA's tables lack, of one layer on an H100, in µs by batch size."""
    rows = streams(model, find_device("h100"))
    lines = {k: Line((row[2], row[4]) for row in rows[k]) for k in token_bytes(model) if k in rows}
    cells = []
    totals = [0.0] * len(BATCHES)
    for kernel, size in token_bytes(model).items():
        if kernel not in rows:
            continue
        times = 2 if kernel == "layernorm" else 1
        found = [times * lines[kernel].at(n) for n in BATCHES]
        totals = [a + b for a, b in zip(totals, found, strict=True)]
        label = f"{kernel}, twice" if times == 2 else kernel
        cells.append([label, f"{times * size:,}", *(f"{us:.1f}" for us in found)])
    cells.append(["a layer", "", *(f"{us:.1f}" for us in totals)])
    step = [us * model.layers / 1e3 for us in totals]
    cells.append([f"{model.layers} layers, ms", "", *(f"{ms:.2f}" for ms in step)])
    return markdown(["kernel", "bytes a token", *(f"{n:,} tokens" for n in BATCHES)], cells)


def beside_timed() -> tuple[str, float]:
    """µs a layer as the shipped profiles have them and as bytes over bandwidth, and the standard
    deviation of the logarithm of their ratio."""
    rows, logs = [], list[float]()
    for name in shipped_profiles():
        profile = find_profile(name)
        model, tp = find_model(str(profile.meta["model"])), int(profile.meta["tp"])
        counted = streams(model, find_device(str(profile.meta["gpu"])), tp=tp)
        for tokens in BATCHES:
            cells, sums = [], [0.0, 0.0]
            for kernel in TIMED:
                if kernel not in profile.rows:
                    cells.append("")
                    continue
                times = 2 if kernel == "layernorm" else 1
                both = [
                    times * Line((row[2], row[4]) for row in table[kernel]).at(tokens)
                    for table in (profile.rows, counted)
                ]
                logs.append(log(both[1] / both[0]))
                sums = [a + b for a, b in zip(sums, both, strict=True)]
                cells.append(f"{both[0]:.1f} / {both[1]:.1f}")
            total = f"{sums[0]:.1f} / {sums[1]:.1f}"
            rows.append([name, f"{tokens:,}", *cells, total])
    spread = (sum(x * x for x in logs) / len(logs)) ** 0.5
    header = ["profile", "tokens", "layernorm, twice", *TIMED[1:], "timed / counted a layer"]
    return markdown(header, rows), spread
