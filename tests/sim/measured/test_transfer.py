"""Requests of one run found in another, on runs made so that the answer is known."""

from dataclasses import replace

import numpy as np

from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.measured.transfer import align, transfer

RUN = read_measured("rtx-4090-llama-3.1-8b")


def without(run: Measured, dropped: set[int], longer: float) -> Measured:
    """The run as another tokenizer would have it: some requests gone, prompts longer."""
    rows = np.array([i for i in range(len(run.trace)) if i not in dropped])
    trace = replace(
        run.trace,
        arrival_s=run.trace.arrival_s[rows],
        prompt_tokens=np.round(run.trace.prompt_tokens[rows] * longer).astype(np.int64),
        output_tokens=run.trace.output_tokens[rows],
    )
    return replace(run, trace=trace)


def test_what_a_filter_dropped_is_skipped() -> None:
    dropped = {0, 7, 8, 150, 299}
    other = without(RUN, dropped, 1.04)
    kept = [i for i in range(300) if i not in dropped]
    assert align(other, RUN) == {old: new for new, old in enumerate(kept)}


def test_shares_are_carried_over_in_the_other_run_s_tokens() -> None:
    other = without(RUN, {7}, 1.06)
    there, here = RUN.trace.prompt_tokens.tolist(), other.trace.prompt_tokens.tolist()
    shares = [(20, 10, min(there[20], there[10]) // 16), (30, 7, 5), (39, 11, 30)]
    assert min(there[39], there[11]) > 31 * 16, "a part of the prompt is shared"
    carried = transfer(shares, RUN, other, 16)
    assert carried == [
        (19, 9, min(here[19], here[9]) // 16),
        (38, 10, 30 * here[10] // there[11]),
    ]


def test_both_shipped_runs_tell_of_the_same_sharing() -> None:
    """Inferred apart, from two runs of one dataset: all but one of 28 are found in both."""
    from sim.measured.prefixes import read_shares, shipped_shares

    twin = read_measured("rtx-pro-6000-qwen3-32b")
    _, own, content = read_shares(shipped_shares(RUN.name))
    unit, theirs, _ = read_shares(shipped_shares(twin.name))
    assert content["twin"] == twin.name
    carried = {(request, earlier) for request, earlier, _ in transfer(theirs, twin, RUN, unit)}
    assert len({(request, earlier) for request, earlier, _ in own} & carried) == 27
