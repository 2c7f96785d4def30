"""Whether a run's times fit into 64 bits of attoseconds, found in Python's integers before it."""

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sim.cost.base import StepCost
from sim.cost.roofline import Roofline
from sim.engine.limits import Limits
from sim.plan import AS_PER_S
from sim.policy.counting.capped import Saturating
from sim.policy.manager import Manager
from sim.policy.shared_pages import SharedPages
from sim.run.compiled.build import FIXED, KERNELS, ROOFLINE, STEPS, cost_kind

if TYPE_CHECKING:
    from sim.cost.kernels.grid import Line
    from sim.cost.kernels.model import KernelTable
    from sim.cost.steps.model import Calibrated

AS_PER_US = 10**12


def most_as(cost: StepCost, limits: Limits, manager: Manager, longest: int) -> int:
    """More than any step, or any number in the sum of a request's steps, can come to.

    No context has more tokens than `longest`, and a request takes at most as many steps, as does an
    event.
    """
    longest = min(longest, limits.max_model_len, manager.longest() + 1)
    most = Most(longest, limits.max_num_seqs, _tokens(limits, manager, longest))
    kind, known = cost_kind(cost), cast(Any, cost)
    if kind == ROOFLINE:
        step_as, growth_as = _roofline(known, most, manager)
    elif kind == KERNELS:
        step_as, growth_as = _kernels(known, most, manager)
    elif kind == STEPS:
        step_as, growth_as = _steps(known, most)
    else:
        assert kind == FIXED
        step_as, growth_as = known._step_as, 0
    parts = step_as // 10**9 * longest, (growth_as // 10**9 + 1) * longest * longest
    return max(step_as, *parts)


class Most(NamedTuple):
    """Of what steps are made of."""

    longest: int  # tokens of a context
    seqs: int
    tokens: int  # that are prefilled in one step


def _tokens(limits: Limits, manager: Manager, longest: int) -> int:
    if limits.batching == "continuous":
        return limits.max_num_batched_tokens
    every = limits.max_num_seqs * longest
    if isinstance(manager, Saturating) and manager.evicts:
        return every
    held = manager.pool.capacity_bytes // max(manager.pool.token_bytes, 1)
    return min(every, held + limits.max_num_seqs)  # what is computed is kept


def _roofline(cost: Roofline, most: Most, manager: Manager) -> tuple[int, int]:
    longest, seqs, tokens = most
    pool = manager.pool
    # Attention reads what is kept, twice at most with landmarks, and states are written, too; a
    # chunk's tokens see the longest. A copy reads and writes what fits into memory.
    read = 2 * seqs * (longest * pool.token_bytes + pool.state_bytes) + 2 * pool.capacity_bytes
    pair_as = cost._pair_as + sum([pair for _, pair in cost._windows])
    token_as = cost._token_as + cost._sample_as + cost._summed_token_as
    weights_as = max(cost._weight_time_as(tokens + seqs), cost._all_weights_as)
    step_as = cost._overhead_as + cost._sums_as + weights_as + read * cost._byte_as
    step_as += (tokens + seqs) * (longest * pair_as + token_as)
    return step_as, 2 * seqs * pool.token_bytes * cost._byte_as


def _kernels(cost: "KernelTable", most: Most, manager: Manager) -> tuple[int, int]:
    longest, seqs, tokens = most
    from sim.cost.kernels.all_reduce import MeasuredAllReduce  # late: few runs have measurements

    grid = cost._attention
    reach = min((chunk for chunk in grid.chunks if chunk >= tokens), default=grid.chunks[-1])
    rows = [
        row
        for chunk, by_earlier in grid._tree.items()
        if chunk <= reach
        for row in by_earlier.values()
    ]
    lines = [line for row in rows for line in row.values()]
    reached = seqs * longest  # tokens whose keys are read, by each that shares them
    if not isinstance(manager, SharedPages):  # copies and landmarks are read, too
        reached = min(reached, 4 * (manager.pool.capacity_bytes // cost._token_bytes + 1))
    if seqs <= min(grid.most_decodes, grid.most_decodes_beside or seqs):
        reached = min(reached, seqs * max(0, longest - cost._contexts[-1]))
    added = 1.5 if grid.most_decodes_beside else 2.0  # what wasn't measured together is added
    attention_us = added * max(max(line.ys) for line in lines) + reached * cost._key_us
    beyond = max(0, longest - grid.longest_earlier) + max(0, tokens - grid.chunks[-1])
    attention_us += tokens * beyond * cost._pair_us
    if cost._skew:
        attention_us += cost._skew.key_us * longest
    per_token = [*cost._per_layer.values(), *cost._per_step.values()]
    dense_us = 2 * cost._layers * sum(_most(per_token, max(cost._most_tokens, 1)))
    dense_us += (tokens + seqs) * cost._token_us + cost.rules.host_overhead_s * 1e6
    dense_us += sum(_most(cost._per_sequence.values(), tokens + seqs))
    if cost._experts:
        dense_us += cost._layers * max(max(one.ys) for one in cost._experts._lines.values())
    if cost._reduce:
        size = (tokens + seqs) * cost._reduced_bytes
        if isinstance(cost._reduce, MeasuredAllReduce):
            size = max(size, cost._reduce._line.xs[-1])
        dense_us += 3 * cost._layers * cost._reduce.seconds(size) * 1e6
    slope_us = max((_steepest(line) for line in grid._tree[0][0].values()), default=0.0)
    slope_us += seqs * cost._key_us
    step_us = cost._layers * attention_us + dense_us
    return int(step_us * AS_PER_US), int(2 * cost._layers * slope_us * AS_PER_US)


def _most(lines: Iterable["Line"], reach: int) -> list[float]:
    """The most of each, up to there."""
    return [max(*line.ys, line.at(max(reach, line.xs[-1]))) for line in lines]


def _steepest(line: "Line") -> float:
    pairs = pairwise(zip(line.xs, line.ys, strict=True))
    return max((abs(high - low) / (b - a) for (a, low), (b, high) in pairs), default=0.0)


def _steps(cost: "Calibrated", most: Most) -> tuple[int, int]:
    """Between knots times are lines, so the knots and the ends decide."""
    from sim.cost.steps.model import interpolate  # late: few runs have measurements

    longest, seqs, tokens = most
    section, dense, sampling = cost._section, cost._table.dense, cost._table.sampling
    batches = tuple(line.batch for line in section.decode)
    contexts = {context for line in section.decode for context in line.context}
    decode_s = slope_s = 0.0
    for batch in (*batches, 1, seqs):
        values = []
        for context in sorted({0, *contexts, longest}):
            across = tuple(interpolate(o.context, o.seconds, context) for o in section.decode)
            values.append((context, interpolate(batches, across, batch)))
        decode_s = max(decode_s, *(abs(value) for _, value in values))
        for (low, one), (high, other) in pairwise(values):
            slope_s = max(slope_s, abs(other - one) / (high - low))
    # Of chunks: at most `first` each and `more` for every token of them.
    sizes = tuple(line.tokens for line in section.prefill)
    pasts = {past for line in section.prefill for past in line.past}
    lines = [
        (sizes, tuple(interpolate(one.past, one.seconds, past) for one in section.prefill))
        for past in (0, *pasts, longest)
    ]
    lines += [(dense.knots, dense.seconds)]
    whole = max(tokens + seqs, *sizes, *dense.knots)
    first = max(abs(interpolate(*line, 1)) for line in lines)
    more = max(
        abs(interpolate(*line, at)) / at for line in lines for at in (*line[0], whole) if at > 1
    )
    sampling_s = max(
        abs(interpolate(sampling.knots, sampling.seconds, at)) for at in (*sampling.knots, seqs)
    )
    step_s = 2 * (decode_s + sampling_s + seqs * first + whole * more)
    return int(step_s * AS_PER_S), int(2 * slope_s * AS_PER_S)
