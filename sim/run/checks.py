"""What is known before a run: requests it can't serve whole, options without effect."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sim.cost.kernels.rules import KernelRules
from sim.engine.scheduler import Scheduler
from sim.policy.paging import Paging
from sim.policy.preallocation import Preallocation
from sim.policy.sliding_window import SlidingWindow
from sim.policy.spec import parts_of
from sim.run.simulation import Setup


class Unserved(NamedTuple):
    """A request of the trace. It is refused where `served_tokens` is 0, else truncated."""

    request: int  # row in the trace, from 0
    prompt_tokens: int
    output_tokens: int
    served_tokens: int  # output tokens that it will get
    reason: str


def find_unserved(setup: Setup) -> list[Unserved]:
    """Requests that will be refused or truncated under the setup's policy, in trace order.

    The bound is the scheduler's own, so nothing else is refused or truncated when it runs.
    """
    scheduler = Scheduler(setup.policy.manager(setup.pool), setup.limits)
    longest = scheduler.longest_total
    if longest == setup.limits.max_model_len:
        reason = f"the longest context is {longest:,} tokens (--max-model-len)"
    else:
        reason = f"the whole cache serves {longest:,} tokens, of which the last is never stored"
    trace = setup.trace
    rows = np.flatnonzero(trace.output_tokens > longest - trace.prompt_tokens).tolist()
    lengths = [(int(trace.prompt_tokens[row]), int(trace.output_tokens[row])) for row in rows]
    return [
        Unserved(row, prompt, output, scheduler.servable(prompt, output), reason)
        for row, (prompt, output) in zip(rows, lengths, strict=True)
    ]


def summary(setup: Setup, unserved: list[Unserved]) -> str:
    """One line: how many are refused and truncated, and by which limit."""
    refused = sum(not row.served_tokens for row in unserved)
    if not unserved:
        return f"all {len(setup.trace):,} requests can be served"
    return (
        f"{refused:,} of {len(setup.trace):,} requests can never be served, "
        f"{len(unserved) - refused:,} will be truncated: {unserved[0].reason}"
    )


def notes(setup: Setup) -> Iterator[str]:
    """One line for each option that changes nothing here."""
    longest, made_for = setup.limits.max_model_len, setup.model.max_position_embeddings
    if longest > made_for:
        yield f"{setup.model.name} was made for {made_for:,} positions, not {longest:,}"
    if setup.profile is None and setup.engine.kernels != KernelRules():
        yield f"--engine {setup.engine.name}: how kernels run matters to --cost table alone"
    if setup.engine.device_limits:
        limits, (seqs, tokens) = setup.limits, setup.engine.limits(setup.device)
        if (limits.max_num_seqs, limits.max_num_batched_tokens) == (seqs, tokens):
            here = "as here"
        else:
            here = f"here {limits.max_num_seqs:,} and {limits.max_num_batched_tokens:,}"
        yield (
            f"--engine {setup.engine.name}: its server takes {seqs:,} requests at once and "
            f"{tokens:,} tokens a step on {setup.device.name}; {here}"
        )
    windowed = any(group.window is not None for group in setup.model.groups)
    for part in parts_of(setup.policy):
        if isinstance(part, SlidingWindow) and part.window >= longest:
            yield (
                f"{setup.label}: a window of {part.window:,} tokens covers every context (up to "
                f"{longest:,}), so nothing is forgotten"
            )
        if isinstance(part, Paging) and part.layers != "reserved" and not windowed:
            yield f"{setup.label}: no layer of {setup.model.name} has a window to cap"
        if isinstance(part, Preallocation) and part.max_len > longest:
            yield f"{setup.label}: max_len is taken as the longest context, {longest:,}"
