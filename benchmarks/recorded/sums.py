"""The all-reduce of the recorded run on two GPUs, which nobody measured: from its steps' times.

`python -m benchmarks.recorded.sums OUT.csv`: bytes and time_us, as `kvtwin profiles convert
--all-reduce` takes them. Every second stretch between stamps is used; benchmarks/recorded/steps.py
judges on the others.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from benchmarks.recorded.pace import Array, Replay, forced
from benchmarks.recorded.replay import RUNS, Change, changed
from sim.cost.kernels.profile import find_profile
from sim.cost.kernels.rules import captured_size
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.plan import AS_PER_S

GPU = "2 × RTX PRO 6000"
KNOTS = (1, 8, 16, 24, 32, 64, 72, 128, 384, 640, 1024, 1536, 2048)
"""Tokens of a step. The time bends between 16 and 24 and between 64 and 72: libraries change
protocol and channels with size."""


def fitted_sums(replay: Replay, half: int = 0) -> dict[int, float]:
    """Seconds of a sum over the GPUs at each knot, by least squares over the even stretches, or
    over the odd ones where `half` is 1."""
    bare, weights = parts(replay)
    stretches = int(replay.segment.max()) + 1
    real = np.bincount(replay.segment, replay.real, stretches)
    known = np.bincount(replay.segment, replay.known, stretches) > 0
    table = np.zeros((stretches, len(KNOTS)))
    np.add.at(table, replay.segment, weights)
    used = known & (real > 0) & (np.arange(stretches) % 2 == half)
    scale = 1 / np.sqrt(np.maximum(np.bincount(replay.segment, minlength=stretches), 1))[used]
    missing = real - np.bincount(replay.segment, bare, stretches)
    found = np.linalg.lstsq(table[used] * scale[:, None], missing[used] * scale, rcond=None)[0]
    return dict(zip(KNOTS, np.maximum(found, 1e-6).tolist(), strict=True))


def parts(replay: Replay) -> tuple[Array, Array]:
    """Of each step the model's seconds without sums, and how much of each knot's sum it has."""
    name, device, profile = RUNS[GPU]
    none = changed(find_profile(profile), Change(without_rows=("all_reduce",)))
    setup = prediction(
        read_measured(name), gpu=device, cost="table", profile=none,
        engine="vllm-0.19:all_reduce=false",
    )  # fmt: skip
    cost = setup.cost()
    count = len(replay.own)
    bare, weights = np.zeros(count), np.zeros((count, len(KNOTS)))
    sums = 2 * setup.model.layers + 1
    for step, plan in replay.plans.items():
        bare[step] = cost.linear(plan)[0] / AS_PER_S
        tokens = captured_size(plan.decodes + plan.prefill_tokens, 512)
        weights[step] = sums * _shares(tokens)
    return bare, weights


def crosswise(replay: Replay) -> Array:
    """The model's seconds of each step, with sums fitted to the half that it isn't in."""
    bare, weights = parts(replay)
    by_half = [weights @ np.array(list(fitted_sums(replay, 1 - half).values())) for half in (0, 1)]
    return bare + np.where(replay.segment % 2 == 0, by_half[0], by_half[1])


def _shares(tokens: int) -> Array:
    """How much each knot counts in linear interpolation."""
    return np.array([np.interp(tokens, KNOTS, row) for row in np.eye(len(KNOTS))])


def main() -> None:
    """Write the table."""
    found = fitted_sums(forced(GPU))
    token_bytes = 5120 * 2
    with Path(sys.argv[1]).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["bytes", "time_us"])
        for tokens, seconds in found.items():
            rows.writerow([tokens * token_bytes, f"{1e6 * seconds:.1f}"])


if __name__ == "__main__":
    main()
