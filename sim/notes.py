"""What a setup asks for without effect, in lines for the user: allowed, but rarely meant."""

from collections.abc import Iterator

from sim.cost.kernels import KernelRules
from sim.policy.composition import parts_of
from sim.policy.paging import Paging
from sim.policy.preallocation import Preallocation
from sim.policy.sliding_window import SlidingWindow
from sim.simulation import Setup


def notes(setup: Setup) -> Iterator[str]:
    """One line for each option that changes nothing here."""
    longest, made_for = setup.limits.max_model_len, setup.model.max_position_embeddings
    if longest > made_for:
        yield f"{setup.model.name} was made for {made_for:,} positions, not {longest:,}"
    if setup.profile is None and setup.engine.kernels != KernelRules():
        yield f"--engine {setup.engine.name}: how kernels run matters to --cost table alone"
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
