"""Numbers that stand in the page's sentences, by name."""

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.recorded import small
from benchmarks.recorded.markdown import markdown
from benchmarks.recorded.replay import RUNS, Change, replay
from sim.cost.kernels.grid import Grid
from sim.cost.kernels.profile import Profile, find_profile
from sim.cost.kernels.skew import LengthSkew, repetitions
from sim.measured.read import read_measured
from sim.model.presets import find_model

QWEN3_14B = """{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 5120,
"intermediate_size": 17408, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
"num_hidden_layers": 40, "vocab_size": 151936, "max_position_embeddings": 40960,
"torch_dtype": "bfloat16"}"""


def small_kernels() -> str:
    """Of Qwen3-14B, whose config.json this is."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(QWEN3_14B, encoding="utf-8")
        return small.small_kernels(find_model(str(file)))


def facts() -> dict[str, str]:
    """Every number of the page that is in no table."""
    found: dict[str, str] = {}
    for key, gpu in (("4090", "RTX 4090"), ("pro", "2 × RTX PRO 6000")):
        run, errors = replay(gpu)
        judged = {k: e for k, e in errors.items() if e.tolerance_pct is not None}
        means = [abs(e.error_pct or 0) for k, e in judged.items() if _is_mean(k)]
        rest = [abs(e.error_pct or 0) for k, e in judged.items() if "_p" in k]
        found[f"worst_mean_{key}"] = f"{max(means):.2f}"
        found[f"worst_percentile_{key}"] = f"{max(rest):.2f}"
        found[f"preemptions_{key}"] = str(int(run.log.requests["preemptions"].sum()))
        _, blind = replay(gpu, Change(prefixes="none"))
        found[f"blind_{key}"] = f"{blind['ttft_ms_mean'].error_pct:+.1f}"
        name = RUNS[gpu][0]
        found[f"lead_{key}"] = f"{1e3 * (1 - read_measured(name).series['t'][0]):.0f}"
        found[f"shared_{key}"], found[f"prompt_{key}"] = _shared(name)
        profile = find_profile(RUNS[gpu][2])
        meta = profile.meta
        skew = LengthSkew(profile, 8 if key == "4090" else 4)
        found[f"wait_{key}"] = f"{1e3 * skew.key_us:.0f}"
        found[f"unsplit_{key}"] = f"{skew.unsplit_from:.0f}"
        found[f"repeats_{key}"] = f"{_repeats(profile):.1f}"
        found[f"rows_wait_{key}"] = f"{1e3 * skew.key_us * repetitions(profile):.0f}"
        if "kernel_time" in meta:
            found[f"kernel_time_{key}"] = f"{100 * (1 - meta['kernel_time'][0]):.1f} %"
        if sums := profile.rows.get("all_reduce"):
            found["sums"] = markdown(
                ["bytes", *(f"{row[2]:,}" for row in sums)],
                [["µs", *(f"{row[4]:.1f}" for row in sums)]],
            )
    _, roofline = replay("2 × RTX PRO 6000", Change(roofline=True))
    for metric in ("ttft", "tpot", "e2el"):
        e = roofline[f"{metric}_ms_mean"]
        found[f"roofline_{metric}"] = f"{e.measured / e.predicted:.1f}"
    return found


def _repeats(profile: Profile) -> float:
    """How much longer batches of equal contexts take in the skew rows than in the table."""
    grid = Grid((row[:4], row[4]) for row in profile.rows["attention"])
    rows = profile.rows["skew_mean"]
    return median(time / grid.decode(n, mean) for _, _, n, mean, time in rows)


def _is_mean(name: str) -> bool:
    return name.endswith("_mean") or name == "makespan_s"


def _shared(name: str) -> tuple[str, str]:
    """Prompt tokens that an earlier prompt begins with, and all of them."""
    trace = read_measured(name).trace
    blocks = trace.prefix
    assert blocks is not None
    seen: set[int] = set()
    shared = 0
    for start, end in zip(blocks.offsets[:-1], blocks.offsets[1:], strict=True):
        ids = blocks.ids[start:end].tolist()
        leading = next((i for i, block in enumerate(ids) if block not in seen), len(ids))
        shared += blocks.block_tokens * leading
        seen.update(ids)
    return f"{shared:,}", f"{int(trace.prompt_tokens.sum()):,}"
