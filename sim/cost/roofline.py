"""Step time from a datasheet: bytes over bandwidth, operations over peak, a fixed overhead.

The roofline of Williams et al. (CACM 2009), taken apart as an engine runs a step: the dense layers
over the whole batch, attention of the decoding requests, attention of the prefill chunks, then
host work. Decode is bound by memory, prefill by arithmetic, and both come out of the same formula.
"""

from dataclasses import dataclass
from functools import cache

from sim.cost.constant import Constant
from sim.hardware import Device
from sim.model import Model
from sim.plan import AS_PER_S, Chunk, StepPlan


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What real kernels reach of the datasheet, each named with its source."""

    bandwidth: Constant = Constant(
        "bandwidth_efficiency", 0.90, "of peak",
        "device copy measured on an H200: 4.3 of 4.8 TB/s",
    )
    matmul: Constant = Constant(
        "matmul_efficiency", 0.80, "of peak",
        "bf16 GEMM 8192^3 measured on an H200: 790 of 989 TFLOP/s",
    )
    attention: Constant = Constant(
        "attention_efficiency", 0.60, "of peak",
        "causal prefill attention, Dao, FlashAttention-2 (2023), A100 forward: 60 to 73 %",
    )
    overhead: Constant = Constant(
        "step_overhead", 0.001, "s",
        "scheduling, input preparation and sampling a step; assumed, to be calibrated",
    )


class Roofline:
    """Cost of steps of one model on one device (or `tp` equal devices)."""

    name = "roofline"

    def __init__(
        self, model: Model, device: Device, tp: int = 1, efficiency: Efficiency | None = None
    ) -> None:
        e = efficiency or Efficiency()
        self.constants: tuple[Constant, ...] = (e.bandwidth, e.matmul, e.attention, e.overhead)
        self._model = model
        self._byte_as = round(AS_PER_S / (device.bandwidth_bytes_per_s * e.bandwidth.value))
        self._weight_byte_as = self._byte_as / tp
        self._matmul_flops = device.flops_per_s * e.matmul.value * tp
        self._attention_flops = device.flops_per_s * e.attention.value * tp
        self._overhead_as = round(e.overhead.value * AS_PER_S)
        self._dense_as = cache(self._dense_time_as)

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        tokens = samples = plan.decodes
        first = self._overhead_as + plan.read_bytes * self._byte_as
        for chunk in plan.chunks:
            tokens += chunk.tokens
            samples += chunk.last
            first += self._prefill_attention_as(chunk)
        first += self._dense_as(tokens, samples)
        return first, plan.read_growth_bytes * self._byte_as, plan.max_steps

    def _dense_time_as(self, tokens: int, samples: int) -> int:
        """Matrix products: weights read once, or every token multiplied with every weight."""
        flops = tokens * self._model.flops_per_token() + samples * self._model.flops_per_sample()
        arithmetic = flops / self._matmul_flops * AS_PER_S
        return round(max(self._model.weight_read_bytes(tokens) * self._weight_byte_as, arithmetic))

    def _prefill_attention_as(self, chunk: Chunk) -> int:
        """Each token of a chunk attends to all before it and to itself."""
        pairs = chunk.tokens * chunk.start + chunk.tokens * (chunk.tokens + 1) // 2
        flops = self._model.attention_flops(pairs, chunk.tokens)
        return round(flops / self._attention_flops * AS_PER_S)
