"""Step time from measurements: whole steps timed on a device, interpolated linearly between.

A step is the dense layers over all its tokens, sampling, attention of the decoding requests, and
attention of each chunk. The table holds whole steps; attention is what they take beyond dense ones
of as many tokens. Steps that only decode, or prefill one chunk, thus cost what was measured.

Interpolation is linear, never logarithmic, because kernels are linear in what they read.
"""

from bisect import bisect_left, bisect_right
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from sim.cost.base import Constant
from sim.cost.steps.table import CostTable, ModelKey, Section
from sim.model.geometry import Model
from sim.plan import AS_PER_S, StepPlan
from sim.policy.prefix import Prefix
from sim.policy.registry import parse_policy
from sim.policy.spec import Composition, Policy
from workloads.errors import InputError

ENDLESS = 2**62


class _Segment(NamedTuple):
    """Between two knots: intercept + slope * read_bytes, in attoseconds."""

    until_bytes: int
    intercept_as: int
    slope_as: int


class Calibrated:
    """Cost of steps of the model and policy that the table was measured with."""

    name = "calibrated"

    def __init__(
        self, table: CostTable, model: Model, policy: Policy, kv_dtype: str, token_bytes: int
    ) -> None:
        """`token_bytes`: of one token, as the policy stores it.

        Raises InputError where the table is of another model, lacks the policy, or was measured
        with tokens of another size.
        """
        own, key = ModelKey.of(model), table.model
        if not key.fits(own):
            names = (
                f"{k.name} ({k.parameters:,} parameters of {k.dtype_bytes} B)" for k in (key, own)
            )
            said = f"the cost table was measured with {', not with '.join(names)}"
            if key.fits(own.model_copy(update={"windows": key.windows})):
                said += ", whose layers have other windows"
            raise InputError(said)
        self._table = table
        self._section = _section(table, policy, kv_dtype)
        if self._section.token_bytes != token_bytes:
            raise InputError(
                f"the cost table's token_bytes of {self._section.policy} is "
                f"{self._section.token_bytes:,}, but a token of {model.name} takes "
                f"{token_bytes:,} B; expected a table measured with it"
            )
        self._most_tokens = table.dense.knots[-1]
        self._most_batch = self._section.decode[-1].batch
        self._most_chunk = self._section.prefill[-1].tokens
        self.reaches = _reaches([(line.batch, line.context[-1]) for line in self._section.decode])
        """By batch: tokens of a context from which on it is beyond what was measured."""
        self.past_reaches = _reaches([(one.tokens, one.past[-1]) for one in self._section.prefill])
        """By length of a chunk: the most tokens before it that were measured."""
        self._steps = self._outside = 0
        self._dense = cache(self._dense_as)
        self._sampling = cache(self._sampling_as)
        self._segments = cache(self._decode_segments)
        self._chunk = cache(self._chunk_as)

    def answered(self, steps: int, outside: int) -> None:
        """So many answers were given in its place, some of them beyond what was measured."""
        self._steps += steps
        self._outside += outside

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Where the numbers come from, and how far the run left them."""
        hardware = self._table.hardware
        source = f"kvtwin calibrate on {hardware.name}, {self._table.created_at}"
        share = self._outside / self._steps if self._steps else 0.0
        return (
            Constant("dense_step", self._table.dense.seconds[0], "s", f"one token; {source}"),
            Constant("copy_rate", float(hardware.copy_bytes_per_s), "B/s", source),
            Constant("matmul_rate", float(hardware.matmul_flops_per_s), "FLOP/s", source),
            Constant("extrapolated_share", share, "of answers", "steps beyond the measured range"),
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before trusting the run."""
        if not self._outside:
            return ()
        share = 100 * self.extrapolated_share
        return (f"{share:.1f} % of steps lie beyond what was measured",)

    @property
    def extrapolated_share(self) -> float:
        """Of the answers given, those outside of what was measured."""
        return self._outside / self._steps if self._steps else 0.0

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        tokens = samples = plan.decodes
        first, outside = 0, False
        for _, start, length, last in plan.chunks:
            tokens += length
            samples += last
            first += self._chunk(length, start)
            outside |= self._past(start) > self.past_reaches[min(length, self._most_chunk)]
            outside |= length > self._most_chunk
        first += self._dense(tokens) + self._sampling(samples)
        self._steps += 1
        outside |= tokens > self._most_tokens or plan.decodes > self._most_batch
        growth, valid = 0, plan.max_steps
        if plan.decodes:
            bounds, segments = self._segments(plan.decodes)
            at = bisect_right(bounds, plan.read_bytes)
            segment = segments[at]
            first += segment.intercept_as + segment.slope_as * plan.read_bytes
            reach = self.reaches[min(plan.decodes, self._most_batch)] * plan.decodes
            outside |= plan.read_bytes >= reach * self._section.token_bytes
            if plan.read_growth_bytes:
                growth = segment.slope_as * plan.read_growth_bytes
                left = segment.until_bytes - plan.read_bytes
                valid = min(valid, -(-left // plan.read_growth_bytes))
        self._outside += outside
        if first <= 0:
            raise too_steep(first, tokens, plan.read_bytes)
        if growth < 0:  # as far as the line stays above 0
            valid = min(valid, (first - 1) // -growth + 1)
        return first, growth, valid

    def _past(self, start: int) -> int:
        """Tokens before a chunk that begins at `start`, as far as they are kept."""
        kept = self._section.kept_tokens
        return start if kept is None else min(start, kept)

    # -- parts of a step, in attoseconds -----------------------------------------------------

    def _dense_as(self, tokens: int) -> int:
        line = self._table.dense
        return round(interpolate(line.knots, line.seconds, tokens) * AS_PER_S)

    def _sampling_as(self, samples: int) -> int:
        line = self._table.sampling
        return round(interpolate(line.knots, line.seconds, samples) * AS_PER_S)

    def _chunk_as(self, tokens: int, start: int) -> int:
        """Attention of one chunk: a step of it alone, without its dense part."""
        past, lines = self._past(start), self._section.prefill
        values = [interpolate(line.past, line.seconds, past) for line in lines]
        knots = tuple(line.tokens for line in lines)
        whole = round(interpolate(knots, tuple(values), tokens) * AS_PER_S)
        return whole - self._dense(tokens) - self._sampling(1)

    def _decode_segments(self, batch: int) -> tuple[list[int], list[_Segment]]:
        """Attention of so many decoding requests: segments by bytes read, and where they begin."""
        lines = self._section.decode
        contexts = sorted({context for line in lines for context in line.context})
        batches = tuple(line.batch for line in lines)
        times = []
        for context in contexts:
            values = [interpolate(line.context, line.seconds, context) for line in lines]
            times.append(interpolate(batches, tuple(values), batch) * AS_PER_S)
        rest = self._dense(batch) + self._sampling(batch)
        token = self._section.token_bytes * batch
        segments: list[_Segment] = []
        for (low, low_as), (high, high_as) in pairwise(zip(contexts, times, strict=True)):
            slope = round((high_as - low_as) / ((high - low) * token))
            segments.append(
                _Segment(high * token, round(low_as) - slope * low * token - rest, slope)
            )
        if not segments:  # a single knot: no growth is known
            segments.append(_Segment(contexts[0] * token, round(times[0]) - rest, 0))
        segments.append(segments[-1]._replace(until_bytes=ENDLESS))
        return [segment.until_bytes for segment in segments[:-1]], segments


def _reaches(lines: list[tuple[int, int]]) -> list[int]:
    """For each size up to the largest: the furthest knot of the lines on either side of it.

    `lines`: (size, furthest knot), sizes ascending.
    """
    sizes = [size for size, _ in lines]
    found = []
    for size in range(sizes[-1] + 1):
        at = bisect_left(sizes, size)
        first = at if sizes[at] == size else max(0, at - 1)
        found.append(max(furthest for _, furthest in lines[first : at + 1]))
    return found


def too_steep(first_as: int, tokens: int, read_bytes: int) -> InputError:
    """No step takes so little."""
    return InputError(
        f"the cost table predicts {first_as / AS_PER_S:g} s for a step of {tokens} tokens "
        f"that reads {read_bytes:,} B of KV: its times fall too steeply; expected "
        "one measured anew"
    )


def interpolate(knots: tuple[int, ...], values: tuple[float, ...], at: float) -> float:
    """Linear between knots, and beyond the last in the direction of the last two."""
    if len(knots) == 1:
        return values[0]
    i = min(max(bisect_right(knots, at) - 1, 0), len(knots) - 2)
    share = (at - knots[i]) / (knots[i + 1] - knots[i])
    return values[i] + share * (values[i + 1] - values[i])


def _section(table: CostTable, policy: Policy, kv_dtype: str) -> Section:
    for section in table.sections:
        if section.kv_dtype == kv_dtype and _timed(parse_policy(section.policy)) == _timed(policy):
            return section
    known = ", ".join(f"{section.policy} ({section.kv_dtype})" for section in table.sections)
    raise InputError(f"the cost table has no such policy with {kv_dtype} KV, only {known}")


def _timed(policy: Policy) -> Policy:
    """As far as times depend on it: not on which free blocks are used first."""
    if isinstance(policy, Composition) and isinstance(policy.sharing, Prefix):
        return replace(policy, sharing=Prefix())
    return policy
