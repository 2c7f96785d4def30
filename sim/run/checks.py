"""What is known before a run: requests it can't serve whole, options without effect."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from reports.language import tr
from sim.cost.kernels.rules import KernelRules
from sim.engine.scheduler import Scheduler
from sim.memory.latent_blocks import latent_note
from sim.policy.paging import Paging
from sim.policy.preallocation import Preallocation
from sim.policy.sliding_window import SlidingWindow
from sim.policy.spec import parts_of
from sim.run import form
from sim.run.options import RunOptions, size_bytes
from sim.run.seam import told_by
from sim.run.session_notes import session_notes
from sim.run.simulation import Setup
from workloads.spool import slices


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
    manager = setup.manager()
    with told_by(setup.policy, setup.label):
        scheduler = Scheduler(manager, setup.limits)
    longest = scheduler.longest_total
    reason = tr(
        "the longest context is {longest} tokens (--max-model-len)"
        if longest == setup.limits.max_model_len
        else "the whole cache serves {longest} tokens, of which the last is never stored",
        longest=f"{longest:,}",
    )
    trace = setup.trace
    rows = []
    for part in slices(trace):
        longer = trace.output_tokens[part] > longest - trace.prompt_tokens[part]
        rows += (part.start + np.flatnonzero(longer)).tolist()
    lengths = [(int(trace.prompt_tokens[row]), int(trace.output_tokens[row])) for row in rows]
    return [
        Unserved(row, prompt, output, scheduler.servable(prompt, output), reason)
        for row, (prompt, output) in zip(rows, lengths, strict=True)
    ]


def summary(setup: Setup, unserved: list[Unserved]) -> str:
    """One line: how many are refused and truncated, and by which limit."""
    refused = sum(not row.served_tokens for row in unserved)
    if not unserved:
        return tr("all {count} requests can be served", count=f"{len(setup.trace):,}")
    return tr(
        "{refused} of {count} requests can never be served, {truncated} will be truncated: "
        "{reason}",
        refused=f"{refused:,}",
        count=f"{len(setup.trace):,}",
        truncated=f"{len(unserved) - refused:,}",
        reason=unserved[0].reason,
    )


def notes(setup: Setup) -> Iterator[str]:
    """One line for each option that changes nothing here."""
    longest, made_for = setup.limits.max_model_len, setup.model.max_position_embeddings
    if longest > made_for:
        yield tr(
            "{model} was made for {made_for} positions, not {longest}",
            model=setup.model.name, made_for=f"{made_for:,}", longest=f"{longest:,}",
        )  # fmt: skip
    if setup.profile is None and setup.engine.kernels != KernelRules():
        yield tr(
            "--engine {engine}: how kernels run matters to --cost table alone",
            engine=setup.engine.name,
        )
    if setup.engine.device_limits:
        limits, (seqs, tokens) = setup.limits, setup.engine.limits(setup.device)
        same = (limits.max_num_seqs, limits.max_num_batched_tokens) == (seqs, tokens)
        yield tr(
            "--engine {engine}: its server takes {seqs} requests at once and {tokens} tokens a "
            "step on {device}; as here"
            if same
            else "--engine {engine}: its server takes {seqs} requests at once and {tokens} tokens "
            "a step on {device}; here {own_seqs} and {own_tokens}",
            engine=setup.engine.name,
            seqs=f"{seqs:,}",
            tokens=f"{tokens:,}",
            device=setup.device.name,
            own_seqs=f"{limits.max_num_seqs:,}",
            own_tokens=f"{limits.max_num_batched_tokens:,}",
        )
    pressure, unasked = setup.limits.pressure, size_bytes(RunOptions.swap_space, "--swap-space")
    if pressure.preemption != "swap" and pressure.swap_space_bytes not in (0, unasked):
        yield tr("--swap-space: nothing is swapped without --preemption swap")
    windowed = any(group.window is not None for group in setup.model.groups)
    for part in parts_of(setup.policy):
        if isinstance(part, SlidingWindow) and part.window >= longest:
            yield tr(
                "{policy}: a window of {window} tokens covers every context (up to {longest}), so "
                "nothing is forgotten",
                policy=setup.label,
                window=f"{part.window:,}",
                longest=f"{longest:,}",
            )
        if isinstance(part, Paging) and part.layers != "reserved" and not windowed:
            yield tr(
                "{policy}: no layer of {model} has a window to cap",
                policy=setup.label,
                model=setup.model.name,
            )
        if isinstance(part, Preallocation) and part.max_len > longest:
            yield tr(
                "{policy}: max_len is taken as the longest context, {longest}",
                policy=setup.label,
                longest=f"{longest:,}",
            )
    if said := latent_note(setup.model, setup.policy):
        yield said
    yield from session_notes(setup)
    if said := form.note(setup):
        yield said
