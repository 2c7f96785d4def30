"""docs/validation-cpu.md from what the campaigns measured; no number is written by hand."""

from collections.abc import Iterator
from typing import Any

HEAD = """# Validation on a CPU

Made by `make campaigns`, which also keeps the numbers (`benchmarks/campaigns/results.json`).

A run of `kvtwin validate` is {repeats} rounds, each a free run and a replay in lockstep, on one
thread that is timed by its own CPU time. Neighbours are not hidden by that, because caches and
cores are shared. So a run is stopped after every quarter of a second of work, and synthetic steps
are timed for three quarters; they predict that run, and the trace's own steps never do. An error is
(predicted − measured) ÷ measured of one round. Judged and shown is the median of the rounds, in
percent; in brackets is how far the measured values themselves lay apart, (largest − smallest) ÷
median. Tolerances: bytes 0, lockstep 5, the others 10. What missed its tolerance is **bold**.
"""

TIMES = (
    ("lockstep_all_s", "lockstep total"),
    ("output_throughput", "throughput"),
    ("ttft_ms_mean", "TTFT mean"),
    ("tpot_ms_mean", "TPOT mean"),
)
BYTES = ("kv_allocated_bytes", "kv_held_peak_bytes", "kv_held_mean_bytes")


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    campaigns = results["campaigns"]
    repeats = max(one["repeats"] for one in campaigns)
    machine = results["machine"]
    parts = [
        HEAD.format(repeats=repeats),
        f"Measured on {results['date']}, on {machine['name']} ({machine['cores']} cores).\n",
        _verdict(campaigns) + "\n",
    ]
    for one in campaigns:
        parts += ["\n".join(_campaign(one)) + "\n"]
    return "\n".join(parts)


def _verdict(campaigns: list[dict[str, Any]]) -> str:
    runs = [run for one in campaigns for run in one["runs"]]
    done = [run for run in runs if run["rows"]]
    passed = [run for run in done if not _misses(run)]
    exact = [row for run in done for row in run["rows"] if row["tolerance_percent"] == 0]
    equal = [row for row in exact if row["predicted"] == row["measured"]]
    judged = [row for run in done for row in run["rows"] if row["passed"] is not None]
    kept = [row for row in judged if row["passed"]]
    text = (
        f"{len(passed)} of {len(runs)} runs pass whole; {len(kept)} of {len(judged)} judged rows "
        f"do. KV bytes were equal in {len(equal)} of {len(exact)} rows."
    )
    misses = [
        f"{run['policy']} ({one['name']}): {', '.join(_misses(run))}"
        for one in campaigns
        for run in one["runs"]
        if run["rows"] and _misses(run)
    ]
    return text + (" Missed: " + "; ".join(misses) + "." if misses else "")


def _misses(run: dict[str, Any]) -> list[str]:
    return [row["label"].removeprefix("free: ") for row in run["rows"] if row["passed"] is False]


def _campaign(one: dict[str, Any]) -> Iterator[str]:
    yield f"## {one['name'].capitalize()}"
    yield ""
    yield one["about"]
    yield ""
    yield "```"
    yield one["command"]
    yield "```"
    yield ""
    names = [title for _, title in TIMES]
    yield "| " + " | ".join(["policy", "KV bytes", *names, *COUNTS, "passed"]) + " |"
    yield "|" + "---|" * (3 + len(names) + len(COUNTS))
    for run in one["runs"]:
        yield "| " + " | ".join(_row(run)) + " |"
    yield ""
    yield _cost(one)


COUNTS = {"preempted": "num_preemptions", "swapped, bytes": "swapped_bytes"}


def _row(run: dict[str, Any]) -> Iterator[str]:
    yield f"`{run['policy']}`"
    if not run["rows"]:
        yield from (f"not run: {run['why']}", *[""] * (len(TIMES) + len(COUNTS)), "no")
        return
    rows = {row["name"]: row for row in run["rows"]}
    equal = all(rows[name]["passed"] for name in BYTES if name in rows)
    size = f"{rows['kv_allocated_bytes']['measured']:,.0f}"
    yield f"{size}, equal" if equal else f"**{size}, not equal**"
    for name, _ in TIMES:
        row = rows[name]
        error, spread = row["error_percent"], row["spread_percent"]
        text = "–" if error is None else f"{error:+.1f}"
        text = f"**{text}**" if row["passed"] is False else text
        yield text if spread is None else f"{text} ({spread:.1f})"
    for name in COUNTS.values():
        yield f"{run['counts'][name]:,.0f}"
    yield "no" if _misses(run) else "yes"


def _cost(one: dict[str, Any]) -> str:
    wall = sum(run["wall_s"] for run in one["runs"])
    spent = sum(run["cpu_s"] for run in one["runs"])
    loads = [load for run in one["runs"] for load in run["load"]]
    least, most = (min(loads), max(loads)) if loads else (0.0, 0.0)
    return (
        f"It took {wall / 60:.1f} minutes, {spent / 60:.1f} of CPU; the machine's load average "
        f"was {least:.1f} to {most:.1f}, this run's own 1 included. Preempted and swapped are "
        "counts of the measured run of median throughput."
    )
