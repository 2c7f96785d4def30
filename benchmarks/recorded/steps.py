"""Steps of the recorded runs, found again from stamps (pace.py), beside the model's by batch size.

The all-reduce of the RTX PRO 6000 comes from its own steps (sums.py). So each half of the stretches
between stamps is judged with sums fitted to the other half.
"""

import numpy as np
from numpy.typing import NDArray

from benchmarks.recorded.markdown import markdown
from benchmarks.recorded.pace import Array, Replay, forced
from benchmarks.recorded.replay import RUNS
from benchmarks.recorded.sums import GPU, crosswise

BATCHES = ((1, 4), (5, 16), (17, 32), (33, 64), (65, 96), (97, 128))
LIMIT_PCT = 1.5


def by_batch() -> str:
    """Model against measured seconds by decodes in the step, with and without a chunk near."""
    rows = []
    for gpu in RUNS:
        replay = forced(gpu)
        own = crosswise(replay) if gpu == GPU else replay.own
        beside = (np.bincount(replay.segment, replay.prefill) > 0)[replay.segment]
        used = replay.known & (own > 0) & (replay.real > 0)
        for low, high in BATCHES:
            cells = [gpu, f"{low} to {high}"]
            for chunk in (False, True):
                some = used & (replay.decodes >= low) & (replay.decodes <= high) & (beside == chunk)
                cells += _cells(replay, own, some)
            rows.append(cells)
        error = 100 * (own[used].sum() / replay.real[used].sum() - 1)
        note = f"of all {len(own):,}"
        if replay.missed_pct:
            note += (
                f", until {replay.met_until_s:.0f} s; requests not met: {replay.missed_pct:.0f} %"
            )
        rows.append([gpu, "all", f"{int(used.sum()):,}", "", f"{error:+.2f} %", note, "", ""])
    header = ["run", "decodes", "steps alone", "stretches", "model"]
    return markdown([*header, "steps near a chunk", "stretches", "model"], rows)


def _cells(replay: Replay, own: Array, some: NDArray[np.bool_]) -> list[str]:
    """How many steps and stretches, and the model's error with its standard error over stretches.

    Where one stretch holds most of the steps that is told: the spread says little then. Marked
    where the error is beyond the limit, and told whether that is more than chance.
    """
    count, stretches = int(some.sum()), len(np.unique(replay.segment[some]))
    if not count:
        return ["", "", ""]
    segment = replay.segment[some]
    mine, real = np.bincount(segment, own[some]), np.bincount(segment, replay.real[some])
    error = 100 * (mine.sum() / real.sum() - 1)
    longest = int(np.bincount(segment).max())
    share = f", {longest:,} of them one stretch" if longest > count / 2 and stretches > 1 else ""
    cells = [f"{count:,}{share}", f"{stretches:,}"]
    if stretches == 1:
        return [*cells, f"{error:+.1f} %"]
    spread = 100 * float(np.sqrt(((mine - (1 + error / 100) * real) ** 2).sum()) / real.sum())
    sign = ""
    if abs(error) > LIMIT_PCT:
        sign = " **beyond**" if abs(error) - LIMIT_PCT > 2 * spread else " beyond, within chance"
    return [*cells, f"{error:+.1f} ± {spread:.1f} %{sign}"]
