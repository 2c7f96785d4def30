"""Step time from a datasheet: bytes over bandwidth, operations over peak, a fixed overhead.

The roofline of Williams et al. (CACM 2009), taken apart as an engine runs a step: the dense layers
over the whole batch, attention of the decoding requests, attention of the prefill chunks, sums
over several GPUs, then host work. Decode is bound by memory, prefill by arithmetic, and both come
out of the same formula.
"""

from collections.abc import Sequence
from functools import cache

from sim.cost.base import Constant, Efficiency
from sim.hardware import Device
from sim.model.geometry import Model
from sim.plan import AS_PER_S, Chunk, StepPlan

UNMEASURED_SUMS = (
    "roofline with several GPUs: sums over them are assumed at 20 µs and the link's peak rate; "
    "a real run on two GPUs over PCIe took 1.7 times as long a token, 1.9 to 2.3 times end to end "
    "and to the first (docs/accuracy.md)"
)


class Roofline:
    """Cost of steps of one model on one device (or `tp` equal devices)."""

    name = "roofline"

    def __init__(
        self, model: Model, device: Device, tp: int = 1, efficiency: Efficiency | None = None
    ) -> None:
        e = efficiency or Efficiency()
        self.constants: tuple[Constant, ...] = (e.bandwidth, e.matmul, e.attention, e.overhead)
        self.warnings: tuple[str, ...] = ()
        self._sums_as = self._summed_token_as = 0  # all-reduces of a step, and of a token in them
        if tp > 1:
            from sim.cost.kernels.all_reduce import assumed  # late: few runs need it

            reduce = assumed(device)
            sums = 2 * model.layers + 1
            self.constants += (reduce.large_latency, reduce.large_bandwidth)
            self.warnings = (UNMEASURED_SUMS,)
            self._sums_as = round(sums * reduce.large_latency.value * AS_PER_S)
            token_bytes = model.hidden_size * model.dtype_bytes
            rate = reduce.large_bandwidth.value
            self._summed_token_as = round(sums * token_bytes / rate * AS_PER_S)
        self._byte_as = round(AS_PER_S / (device.bandwidth_bytes_per_s * e.bandwidth.value))
        self._overhead_as = round(e.overhead.value * AS_PER_S)
        matmul_flops = device.flops_per_s * e.matmul.value * tp
        self._token_as = round(model.flops_per_token() / matmul_flops * AS_PER_S)
        self._sample_as = round(model.flops_per_sample() / matmul_flops * AS_PER_S)
        self._model = model
        self._tp = tp
        self._weights_as = cache(self._weight_time_as) if model.weights.experts else None
        self._all_weights_as = self._weight_time_as(1)
        flop_as = AS_PER_S / (device.flops_per_s * e.attention.value * tp)
        self._pair_as = 0  # a query and a key over all layers that see every key
        self._windows: list[tuple[int, int]] = []  # window, a pair over its layers
        for group in model.groups:
            pair_as = round(model.pair_flops(group) * flop_as)
            most = group.selects or group.window  # keys of a query
            if most is None:
                self._pair_as += pair_as
            else:
                self._windows.append((most, pair_as))

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        # Unpacking a plan takes a tenth of the time of asking for its fields by name.
        _, max_steps, decodes, _, read_bytes, read_growth, prefilled, chunks, *_ = plan
        first = self.step_as(decodes, prefilled, read_bytes, chunks)
        return first, read_growth * self._byte_as, max_steps

    def step_as(
        self, decodes: int, prefilled: int, read_bytes: int, chunks: Sequence[Chunk]
    ) -> int:
        """Attoseconds of one step."""
        count, samples = decodes + prefilled, decodes
        first = self._overhead_as + read_bytes * self._byte_as
        for _, start, length, last in chunks:
            samples += last
            # Each token of a chunk attends to all before it and to itself.
            pairs = length * start + length * (length + 1) // 2
            first += pairs * self._pair_as
            for window, pair_as in self._windows:
                first += min(pairs, window * length) * pair_as
        # Matrix products: weights read once, or every token multiplied with every weight.
        read = self._reading_as(count)
        arithmetic = count * self._token_as + samples * self._sample_as
        first += read if read > arithmetic else arithmetic
        return first + self._sums_as + count * self._summed_token_as

    def _reading_as(self, tokens: int) -> int:
        """Reading the weights that a step of so many tokens needs."""
        return self._weights_as(tokens) if self._weights_as else self._all_weights_as

    def _weight_time_as(self, tokens: int) -> int:
        """Reading the weights that a step of so many tokens needs, on each device its share."""
        return self._model.weight_read_bytes(tokens) * self._byte_as // self._tp


class FixedStep:
    """`seconds` a step, whatever it computes."""

    name = "fixed"
    warnings = ()

    def __init__(self, seconds: float, source: str) -> None:
        self.constants: tuple[Constant, ...] = (Constant("step", seconds, "s", source),)
        self._step_as = round(seconds * AS_PER_S)

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        return self._step_as, 0, plan.max_steps
