"""Searches against brute force: `python -m benchmarks.search [WORKLOAD ...]`.

Three workloads under two service levels each, five configurations by 40 rates: 200 points, each of
them run under ten draws of arrivals until one breaks the level. The search must find the same best
point and runner-up with at most 15 % of the points and runs. Then sixty draws are asked for, and
what is found is run under forty others: ten draws that all hold say less than they seem to, as the
highest rate that they allow is sought.
"""

import json
import sys
import time
from dataclasses import replace

from sim.run.options import RunOptions
from sim.run.simulation import simulated
from sim.sweep.grid import Grid, make_grid
from sim.sweep.question import Question
from sim.sweep.search import Found, Search
from workloads import read_trace
from workloads.made import make_workload
from workloads.schema import Trace
from workloads.transform import first

DRAWS, MANY_DRAWS, OTHERS, RATES, REQUESTS = 10, 60, 40, 40, 250
CONFIGURATIONS = {"max_num_seqs": [4, 8, 16, 32, 64]}
LEVELS = {
    "conversations": ("ttft_p90=1s,tpot_p50=40ms", "e2e_p90=12s"),
    "code": ("ttft_p90=1s,tpot_p50=40ms", "e2e_p90=3s"),
    "summaries": ("ttft_p90=1s,tpot_p50=40ms", "e2e_p90=8s"),
}


def workloads() -> dict[str, tuple[Trace, dict[str, str], float]]:
    """By name: requests, model and GPU, and the step between rates in requests/s."""
    conversations = first(read_trace("azure-2023-conv"), REQUESTS)
    code = first(read_trace("azure-2023-code"), REQUESTS)
    return {
        "conversations": (conversations, {"model": "llama-2-7b", "gpu": "a100-40gb"}, 0.2),
        "code": (code, {"model": "llama-3.1-8b", "gpu": "l40s"}, 0.25),
        "summaries": (
            make_workload("summarisation", REQUESTS, 1.0, seed=1),
            {"model": "llama-3.1-8b", "gpu": "h100"},
            0.5,
        ),
    }


def brute_force(search: Search) -> tuple[list[tuple[int, int]], bool]:
    """Best two (configuration, rung), and whether every configuration's levels were monotone."""
    tops, monotone = [], True
    for number in range(len(CONFIGURATIONS["max_num_seqs"])):
        held = [search.holds(number, rung) for rung in range(RATES)]
        top = held.index(False) if False in held else RATES
        monotone &= not any(held[top:])
        if top:
            tops.append((number, top - 1))
    return sorted(tops, key=lambda pair: -pair[1])[:2], monotone


def case(name: str, slo: str) -> dict[str, object]:
    """One workload under one level."""
    trace, system, step = workloads()[name]
    base = RunOptions(**system, slo=slo, arrivals="poisson", max_model_len=16384)  # type: ignore[arg-type]
    if name == "conversations":
        base = replace(base, max_model_len=4096)
    grid: Grid = make_grid(base, CONFIGURATIONS)
    question = Question(resolution=step, most=step * RATES, draws=DRAWS)
    began = time.process_time()
    searched = Search(grid, trace, question).answer()
    search_cpu_s = time.process_time() - began
    whole = Search(grid, trace, question)
    expected, monotone = brute_force(whole)
    brute_cpu_s = time.process_time() - began - search_cpu_s
    found = [one for one in (searched.best, searched.runner_up) if one is not None]
    configurations = CONFIGURATIONS["max_num_seqs"]
    ours = [
        (configurations.index(one.point["max_num_seqs"]), round(one.worth / step) - 1)
        for one in found
    ]
    held = other_draws(trace, searched.best)
    many = Search(grid, trace, replace(question, draws=MANY_DRAWS)).answer()
    held_of_many = other_draws(trace, many.best)
    return {
        "workload": name,
        "level": slo,
        "best": None if not found else f"{configurations[ours[0][0]]} at {found[0].worth:g}/s",
        "equal": ours == expected,
        "monotone": monotone,
        "points": searched.points,
        "of": len(configurations) * RATES,
        "runs": len(searched.rows),
        "brute_runs": len(whole.rows),
        "cpu_s": round(search_cpu_s, 1),
        "brute_cpu_s": round(brute_cpu_s, 1),
        "other_draws": OTHERS,
        "held_of_10_draws": held,
        "held_of_60_draws": held_of_many,
        "best_of_60_draws": None if many.best is None else many.best.worth,
        "runs_of_60_draws": len(many.rows),
    }


def other_draws(trace: Trace, best: Found | None) -> int:
    """Of arrivals that no search has seen, under how many the level holds there."""
    if best is None:
        return 0
    seeds = range(1000, 1000 + OTHERS)
    return sum(simulated(trace, replace(best.options, seed=s))["slo_met"] == 1 for s in seeds)


def main() -> None:
    """All cases, a line of JSON each."""
    chosen = sys.argv[1:]
    for name in workloads():
        for slo in LEVELS[name]:
            if not chosen or name in chosen:
                print(json.dumps(case(name, slo)), flush=True)


if __name__ == "__main__":
    main()
