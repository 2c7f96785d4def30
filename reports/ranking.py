"""Which runs may be held against each other, and in which order they come.

Ties go to the simplest: what a simulation can't tell apart is no reason for a larger machine.
"""

import math
import re
from collections.abc import Sequence

import numpy as np

from reports.language import tr
from reports.load import Run
from reports.service import service

CLOSE = 0.01
"""Mean latencies that differ by less are not worth a choice."""

USUAL_BLOCK = 16
"""Tokens a block, as vLLM has it: the simplest choice where block sizes tie."""


def unlike(runs: Sequence[Run]) -> str | None:
    """Why no winner can be named among these runs; None where one can."""
    if len({run.info.model.name for run in runs}) > 1:
        return "models"
    if not one_workload(runs):
        return "traces"
    return "cost models" if len(cost_models(runs)) > 1 else None


def cost_models(runs: Sequence[Run]) -> list[str]:
    """Names of the cost models, one each: other constants of the same device are another model."""
    constants: dict[tuple[str, str], list[object]] = {}
    names = []
    for run in runs:
        known = constants.setdefault((run.info.cost.name, run.info.device.name), [])
        if run.info.cost.constants not in known:
            name = run.info.cost.name
            names.append(tr("{name} with other constants", name=name) if known else name)
            known.append(run.info.cost.constants)
    return list(dict.fromkeys(names))


def one_workload(runs: Sequence[Run]) -> bool:
    """Whether all runs replay requests of the same lengths in the same order, at any rate."""
    return all(_equal(runs[0], run, ("prompt_tokens", "output_tokens")) for run in runs[1:])


def one_trace(runs: Sequence[Run]) -> bool:
    """Whether all runs replay the same requests at the same times, whatever the trace is called."""
    names = ("arrival_s", "prompt_tokens", "output_tokens")
    return all(_equal(runs[0], run, names) for run in runs[1:])


def _equal(a: Run, b: Run, names: Sequence[str]) -> bool:
    return all(
        len(a.requests[name]) == len(b.requests[name])
        and np.allclose(a.requests[name], b.requests[name])
        for name in names
    )


def limitation(run: Run) -> str | None:
    """What the run gives up of the model's answers, by its policy or by how it stores KV."""
    return run.info.policy.limitation


def stored_as(run: Run) -> str:
    """The words that blame how KV is stored, where that changes answers whatever the policy."""
    stored = run.info.policy.stored_as
    return "" if stored is None else tr(" with KV in {format}", format=stored)


def ranked(runs: Sequence[Run]) -> list[Run]:
    """The best first: most finished in full, then those that keep up, then by mean latency."""
    return sorted(runs, key=_merit)


def tied(runs: Sequence[Run]) -> list[Run]:
    """Those that can't be told from the best one, the simplest of them first."""
    best = ranked(runs)[0]
    served, behind, mean = _merit(best)
    equal = [
        run
        for run in runs
        if _merit(run)[:2] == (served, behind)
        and (run is best or abs(_merit(run)[2] - mean) <= CLOSE * mean)
    ]
    return sorted(equal, key=simplicity)


def _merit(run: Run) -> tuple[int, bool, float]:
    latency = run.value("e2el_ms_mean")
    return (
        -run.count("finished"),
        not service(run).keeps_up,
        float("inf") if latency is None else latency,
    )


def simplicity(run: Run) -> tuple[int, float, int, str]:
    """Smaller is simpler: fewer modifiers, then blocks nearer to the usual, then fewer options."""
    spec = run.info.policy.spec
    block = re.search(r"block_size=(\d+)", spec)
    size = int(block[1]) if block else USUAL_BLOCK
    return spec.count("+"), abs(math.log2(max(size, 1) / USUAL_BLOCK)), spec.count("="), spec
