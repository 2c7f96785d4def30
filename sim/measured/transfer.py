"""Prompt sharing found in one run carried over to another run of the same conversations.

Two runs of one dataset under two tokenizers hold the same requests with slightly other lengths,
less those that a length filter dropped on one side. Aligning the two lists by length tells which
is which; what was inferred from the stamps of one run is then knowledge that the other run's
stamps had no part in.
"""

from math import log

import numpy as np

from sim.measured.run import Measured

GAP = -0.3
"""Score of a request that only one run has. A pair of equal lengths scores 1."""
SLOPE = 4.0
"""Score lost per unit of difference of the logarithms of the lengths."""

Shares = list[tuple[int, int, int]]


def align(one: Measured, other: Measured) -> dict[int, int]:
    """Requests of `one` by those of `other` that are the same, in order.

    Global alignment by dynamic programming (Needleman and Wunsch, 1970); free at both ends.
    """
    rows, columns = _lengths(one), _lengths(other)
    score = np.zeros((len(rows) + 1, len(columns) + 1))
    step = np.zeros(score.shape, dtype=np.int8)
    for i, (prompt, output) in enumerate(rows, 1):
        for j, (other_prompt, other_output) in enumerate(columns, 1):
            apart = abs(log(prompt / other_prompt)) + abs(log(output / other_output))
            ways = (
                score[i - 1, j - 1] + 1 - SLOPE * apart,
                score[i - 1, j] + GAP,
                score[i, j - 1] + GAP,
            )
            step[i, j] = best = max(range(3), key=ways.__getitem__)
            score[i, j] = ways[best]
    i, j = len(rows), int(np.argmax(score[-1]))
    pairs: dict[int, int] = {}
    while i and j:
        if step[i, j] == 0:
            pairs[j - 1] = i - 1
        i, j = i - (step[i, j] != 2), j - (step[i, j] != 1)
    return dict(sorted(pairs.items()))


def transfer(shares: Shares, source: Measured, target: Measured, unit: int) -> Shares:
    """The shares between requests that the target has, in its own blocks of `unit` tokens.

    Where the whole shorter prompt was shared it is shared here; else as large a part of the earlier
    one's tokens.
    """
    found = align(target, source)
    there, here = source.trace.prompt_tokens.tolist(), target.trace.prompt_tokens.tolist()
    carried: Shares = []
    for request, earlier, blocks in shares:
        if request not in found or earlier not in found:
            continue
        new, old = found[request], found[earlier]
        if blocks >= min(there[request], there[earlier]) // unit:
            carried.append((new, old, min(here[new], here[old]) // unit))
        else:
            carried.append((new, old, blocks * here[old] // there[earlier]))
    return sorted(carried)


def _lengths(run: Measured) -> list[tuple[int, int]]:
    prompts, outputs = run.trace.prompt_tokens.tolist(), run.output_tokens.tolist()
    return list(zip(prompts, outputs, strict=True))
