"""Step time from measured kernels: one layer's tables times the layers, and what lies between.

time = layers · (dense(tokens) + attention(chunks, decodes) + 2 all-reduces) + one all-reduce
     + embedding + final norm + output projection(sequences) + sampler(sequences) + host

A run of decode steps costs first + j · growth while the mean context stays between two measured
ones. Beyond the measured range the roofline goes on from the last point, and the run says so.
"""

from bisect import bisect_right
from dataclasses import replace
from functools import cache
from math import inf

from sim.cost.base import Constant, Efficiency
from sim.cost.kernels.all_reduce import AllReduce, MeasuredAllReduce, all_reduce, assumed
from sim.cost.kernels.experts import Experts
from sim.cost.kernels.grid import Grid, Line, total
from sim.cost.kernels.profile import (
    GEMMS,
    OF_OLDER,
    PER_LAYER,
    PER_SEQUENCE,
    PER_STEP,
    Profile,
    scaled,
    shape,
)
from sim.cost.kernels.rules import KernelRules, captured_size
from sim.cost.kernels.skew import LengthSkew, has_skew
from sim.hardware import DEVICES, Device
from sim.model.geometry import Model
from sim.model.kv_formats import kv_format
from sim.model.layers import KvFormat
from sim.plan import Chunk, StepPlan
from workloads.errors import InputError

AS_PER_US = 10**12
LEAST_SHARE = 0.3
"""Of one chunk's attention that several chunks of the same tokens take at least."""


class KernelTable:
    """Cost of steps of one model on `tp` devices of the kind that was profiled."""

    name = "table"

    def __init__(
        self,
        model: Model,
        device: Device,
        profile: Profile,
        *,
        tp: int = 1,
        token_bytes: int | None = None,
        kv: KvFormat | None = None,
        rules: KernelRules | None = None,
    ) -> None:
        _check(model, device, profile, tp, kv or kv_format(model, "auto"))
        self.rules = rules or KernelRules()
        self._layers = model.layers
        self._token_bytes = token_bytes or model.kv_bytes_per_token(tp=tp)
        share, share_why = profile.meta.get("kernel_time") or (1.0, "none stated")
        share *= self.rules.kernel_time
        rows = scaled(profile.rows, share)
        points = {
            kernel: Line((row[2], row[4]) for row in rows[kernel])
            for kernel in sorted(PER_LAYER | PER_STEP | PER_SEQUENCE)  # sums depend on the order
            if kernel in rows
        }
        self._per_layer = {k: line for k, line in points.items() if k in PER_LAYER}
        self._experts: Experts | None = None
        if any(row[3] for row in rows.get("moe", ())):
            del self._per_layer["moe"]
            self._experts = Experts(rows["moe"], model)
        self._per_step = {k: line for k, line in points.items() if k in PER_STEP}
        self._per_sequence = {k: line for k, line in points.items() if k in PER_SEQUENCE}
        self._most_tokens = min(line.xs[-1] for line in self._per_layer.values())
        self._most_sequences = min(line.xs[-1] for line in self._per_sequence.values())
        self._attention = Grid((row[:4], row[4]) for row in rows["attention"])
        self._contexts = self._attention.decode_contexts
        self._noted: dict[str, None] = {}  # in order of appearance
        self._beyond: dict[tuple[str, int], int] = {}  # what and its limit: the most asked for
        if "moe" in rows and model.weights.mlp:
            self._note("layers with a dense MLP are timed as those with experts")
        self._skew: LengthSkew | None = None
        if self.rules.length_skew and has_skew(profile):
            heads = max(group.heads_per_rank(tp) for group in model.groups)
            self._skew = LengthSkew(profile, heads, share)
        elif self.rules.length_skew:
            self._note("unequal contexts were not measured: batches wait for no longest one")
        self._overlaps = profile.meta.get("beside_chunk") == "overlap"
        overlap, why = profile.meta.get("kernel_overlap") or (0.0, "none stated")
        self._hidden_us = 1e6 * (overlap + self.rules.kernel_overlap_s)
        self._reduce: AllReduce | MeasuredAllReduce | None = None
        stated: tuple[Constant, ...] = ()
        if tp > 1 and self.rules.all_reduce:
            if "all_reduce" in rows:
                self._reduce = MeasuredAllReduce(rows["all_reduce"])
                said = profile.meta.get("all_reduce_source", profile.meta["source"])
                sizes = len(rows["all_reduce"])
                stated = (Constant("all_reduce_sizes", sizes, "sizes in the table", said),)
            else:
                given = profile.meta.get("all_reduce")
                self._reduce = stated = all_reduce(*given) if given else assumed(device)
                if not given:
                    self._note("all-reduce was not measured: assumed from the link's peak rate")
        self._reduced_bytes = model.hidden_size * model.dtype_bytes  # a token's
        e = Efficiency()
        seconds = device.bandwidth_bytes_per_s * e.bandwidth.value
        self._key_us = model.kv_bytes_per_token(tp=tp) / self._layers / seconds * 1e6
        self._token_us = model.flops_per_token() / (device.flops_per_s * e.matmul.value * tp) * 1e6
        pair = sum(model.pair_flops(group) for group in model.groups) / self._layers
        self._pair_us = pair / (device.flops_per_s * e.attention.value * tp) * 1e6
        measured = f"profile {profile.name}: {profile.meta['source']}"
        self.constants: tuple[Constant, ...] = (
            Constant("profiled_layers", self._layers, "x one layer", measured),
            *stated,
            *self.rules.constants(),
            Constant("profile_kernel_time", share, "x", share_why),
            Constant("profile_overlap", overlap, "s/layer", why),
            *self._skew_constants(),
            *(c._replace(source=f"beyond the profile only; {c.source}") for c in _used(e)),
        )
        self._dense_as = cache(self._dense)
        self._line = cache(self._decode_line)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What nobody measured, and how far the run went beyond the measured range so far."""
        return (
            *self._noted,
            *(
                f"outside the profile, by roofline: {what}, {most - limit:,} beyond {limit:,}"
                for (what, limit), most in self._beyond.items()
            ),
        )

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        if plan.chunks:
            return self._mixed(plan), 0, 1
        n, size = plan.decodes, self._token_bytes
        first = self._dense_as(n, n)
        mean = plan.read_bytes // (n * size)
        base, rate, until = self._line(n, self._cell(mean), False)
        if mean > self._contexts[-1]:
            self._say("tokens of a decode's context", self._contexts[-1], mean)
        first += base + rate * plan.read_bytes
        growth = rate * plan.read_growth_bytes
        valid = plan.max_steps
        if plan.read_growth_bytes and until < inf:
            room = int(until) * n * size - plan.read_bytes
            valid = min(valid, -(-room // plan.read_growth_bytes))
        if self._skew and plan.read_bytes == plan.context_tokens * size:
            longest = plan.longest_context
            base, rate, until = self._line(n, self._cell(longest), True)
            first += base + rate * longest
            growth += rate
            if until < inf:
                valid = min(valid, int(until) - longest)
        return first, growth, valid

    # -- of data-parallel ranks (sim/cost/kernels/ranks.py) ----------------------------------

    @property
    def knows_experts(self) -> bool:
        """Whether experts were timed by how many are woken."""
        return self._experts is not None

    def attention_as(self, plan: StepPlan) -> int:
        """Of a step of that plan: attention over all layers, attoseconds."""
        tokens, sequences = plan.decodes + plan.prefill_tokens, plan.decodes + len(plan.chunks)
        return self.linear(plan)[0] - self._dense_as(tokens, sequences)

    def rest_as(self, tokens: int, sequences: int, pooled: tuple[int, int]) -> int:
        """All but attention, attoseconds, of a rank that computes so many tokens, padding included.

        `pooled`: the tokens of all ranks, which their experts compute together, and how many ranks.
        """
        return self._dense_as(tokens, sequences, pooled)

    def _skew_constants(self) -> tuple[Constant, ...]:
        if self._skew is None:
            return ()
        why = "profile: median over its rows of a chunk beside decodes, few of them long"
        return (Constant("skew_beside_chunk", self._skew.key_us / 1e6, "s/key/layer", why),)

    # -- decode ------------------------------------------------------------------------------

    def _cell(self, context: int) -> int:
        """Which pair of measured contexts it lies between; the last cell has no end."""
        return max(bisect_right(self._contexts, context) - 1, 0)

    def _decode_line(self, n: int, cell: int, longest: bool) -> tuple[int, int, float]:
        """(base, rate, end): attention of n sequences over all layers, linear within the cell.

        The rate is per byte read by the batch, or per token of the longest sequence for the part
        that waits for it. `end` is the context at which the cell ends.
        """
        xs, grid = self._contexts, self._attention
        at = min(n, grid.most_decodes)
        if n > at:
            self._say("decoding requests", at, n)
        start = grid.decode(at, xs[cell])
        if cell + 1 < len(xs):
            end: float = xs[cell + 1]
            slope = (grid.decode(at, end) - start) / (end - xs[cell])
        else:
            end, slope = inf, at * self._key_us
        slope += (n - at) * self._key_us
        share = self._skew.alpha(n, captured_size(n, self.rules.padded_to)) if self._skew else 0.0
        if not longest:
            share = 1 - share
        us = self._layers * share * AS_PER_US
        rate = round(us * slope / (1 if longest else n * self._token_bytes))
        reach = xs[cell] if longest else xs[cell] * n * self._token_bytes
        return round(us * (start + (n - at) * xs[cell] * self._key_us)) - rate * reach, rate, end

    # -- prefill -----------------------------------------------------------------------------

    def _mixed(self, plan: StepPlan) -> int:
        """A step with chunks, in attoseconds."""
        tokens = plan.decodes + plan.prefill_tokens
        total = self._dense_as(tokens, plan.decodes + len(plan.chunks))
        n, keys = plan.decodes, plan.read_bytes / self._token_bytes
        longest = plan.longest_context
        chunks: list[Chunk] = []
        for chunk in plan.chunks:
            if chunk.tokens == 1:  # for the kernel a decode like others
                n, keys, longest = n + 1, keys + chunk.start + 1, max(longest, chunk.start + 1)
            else:
                chunks.append(chunk)
        mean = keys / n if n else 0.0
        if mean > self._contexts[-1]:
            self._say("tokens of a decode's context", self._contexts[-1], round(mean))
        us = self._chunks(chunks, n, mean) if chunks else self._decode(n, mean)
        if self._skew and longest > mean and n:
            us += self._skew.key_us * (longest - mean)
        return total + round(self._layers * us * AS_PER_US)

    def _decode(self, n: int, mean: float) -> float:
        at, context = min(n, self._attention.most_decodes), min(mean, self._contexts[-1])
        beyond = n * mean - at * context
        return self._attention.decode(at, context) + beyond * self._key_us

    def _chunks(self, chunks: list[Chunk], n: int, mean: float) -> float:
        """Several chunks take as long as one with their tokens and their query-key pairs."""
        grid = self._attention
        tokens = sum([chunk.tokens for chunk in chunks])
        pairs = total(c.tokens * (c.start + c.tokens / 2) for c in chunks)
        most = grid.chunks[-1]
        size = min(tokens, most)
        earlier = pairs / tokens - tokens / 2
        if earlier > grid.longest_earlier:
            self._say("tokens before a chunk", grid.longest_earlier, round(earlier))
        known = min(max(earlier, 0.0), grid.longest_earlier)
        us = alone = grid.chunk(size, known)
        span = min(size, grid.longest_earlier)
        if earlier < 0:  # triangles of several prompts are less than that of one
            slope = (grid.chunk(size, span) - alone) / span if span else size * self._pair_us
            us = max(us + slope * earlier, LEAST_SHARE * us)
        if tokens > most:
            self._say("tokens of a chunk", most, tokens)
        us += max(pairs - size * (known + size / 2), 0.0) * self._pair_us
        if n and not grid.most_decodes_beside:
            decode = self._decode(n, mean)
            self.note_beside()
            us = max(us, decode) if self._overlaps else us + decode
        elif n:
            at = min(n, grid.most_decodes_beside)
            if n > at:
                self._say("decoding requests beside a chunk", at, n)
            context = min(mean, self._contexts[-1])
            us += grid.chunk(size, known, at, context) - alone
            us += (n * mean - at * context) * self._key_us
        return us

    def note_beside(self) -> None:
        """What is taken of decodes beside a chunk where nobody measured them."""
        taken = "taken to overlap with it" if self._overlaps else "times are added"
        self._note(f"decodes beside a chunk were not measured: {taken}")

    # -- all but attention -------------------------------------------------------------------

    def _dense(self, tokens: int, sequences: int, pooled: tuple[int, int] | None = None) -> int:
        """Everything that depends on the number of tokens and sequences alone, attoseconds."""
        rules = self.rules
        padded = captured_size(tokens, rules.padded_to)
        known = min(padded, self._most_tokens)
        us = 0.0
        for part in self._layer_us(padded, pooled).values():
            us += part
        us = max(us - self._layers * self._hidden_us, 0.0)
        us += rules.host_overhead_s * 1e6
        us += total(line.at(known) for line in self._per_step.values())
        if padded > known:
            self._say("tokens of a step", known, padded)
            us += (padded - known) * self._token_us
        if sequences > self._most_sequences:
            self._say("sequences of a step", self._most_sequences, sequences)
        us += total(line.at(sequences) for line in self._per_sequence.values())
        if self._reduce:
            us += self._reduce_us(padded)
        return round(us * AS_PER_US)

    def _layer_us(self, padded: int, pooled: tuple[int, int] | None = None) -> dict[str, float]:
        """Of all layers, by kernel: what depends on tokens alone."""
        known = min(padded, self._most_tokens)
        found: dict[str, float] = {}
        for kernel, line in self._per_layer.items():
            stairs = self.rules.whole_tiles and kernel in GEMMS
            times = 2 if kernel == "layernorm" else 1
            us = line.at_tile(known) if stairs else line.at(known)
            found[kernel] = self._layers * times * us
        if self._experts and pooled:
            found["moe"] = self._layers * self._experts.share(*pooled)
        elif self._experts:
            known = min(padded, self._experts.most_tokens)
            found["moe"] = self._layers * self._experts.at(known)
        return found

    def _reduce_us(self, padded: int) -> float:
        """Of a step's sums over GPUs."""
        assert self._reduce
        return (2 * self._layers + 1) * self._reduce.seconds(padded * self._reduced_bytes) * 1e6

    def parts_us(self, tokens: int, sequences: int) -> dict[str, float]:
        """µs of such a step by kernel, as far as the profile goes; all but attention."""
        padded = captured_size(tokens, self.rules.padded_to)
        found = self._layer_us(padded)
        known = min(padded, self._most_tokens)
        found |= {kernel: line.at(known) for kernel, line in self._per_step.items()}
        found |= {kernel: line.at(sequences) for kernel, line in self._per_sequence.items()}
        if self._reduce:
            found["all_reduce"] = self._reduce_us(padded)
        return found

    def _say(self, what: str, limit: int, asked: int) -> None:
        key = what, limit
        if asked > self._beyond.get(key, limit):
            self._beyond[key] = asked

    def _note(self, what: str) -> None:
        self._noted[what] = None


def _used(efficiency: Efficiency) -> tuple[Constant, ...]:
    return efficiency.bandwidth, efficiency.matmul, efficiency.attention


def _check(model: Model, device: Device, profile: Profile, tp: int, kv: KvFormat) -> None:
    """Raise InputError, in one line, where the profile is of something else than the run."""
    meta, label = profile.meta, f"--profile {profile.label}"
    measured_on = DEVICES.get(str(meta["gpu"]))
    if measured_on and device.name in DEVICES and device.name != measured_on.name:
        raise InputError(f"{label}: measured on {measured_on.name}, not {device.name}")
    if meta["tp"] != tp:
        raise InputError(f"{label}: measured for --tp {meta['tp']}, not {tp}")
    said = {**OF_OLDER, **meta}
    for field, value in shape(model).items():
        if field in said and said[field] != value:
            raise InputError(
                f"{label}: measured with {field} {said[field] or 'as computed'}, but {model.name} "
                f"has {value or 'them as computed'}"
            )
    kv_type = meta.get("kv_dtype", "auto")
    timed = kv_format(model, kv_type)
    if replace(timed, name=kv.name) != kv:
        raise InputError(
            f"{label}: measured with a KV cache of {timed.bits} bits ({kv_type}), "
            f"not {kv.bits} ({kv.name})"
        )
    if model.weights.experts and "moe" not in profile.rows:
        raise InputError(
            f"{label}: has no times of experts (moe), but {model.name} has them; "
            "expected --cost roofline"
        )
    if "moe" in profile.rows and not model.weights.experts:
        raise InputError(f"{label}: times experts (moe), but {model.name} has none")
    if any(group.kind != "full" for group in model.groups):
        raise InputError(
            f"{label}: times full attention, but {model.name} has other layers; "
            "expected --cost roofline"
        )
