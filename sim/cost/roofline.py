"""Step time from a datasheet: bytes over bandwidth, operations over peak, a fixed overhead.

The roofline of Williams et al. (CACM 2009), taken apart as an engine runs a step: the dense layers
over the whole batch, attention of the decoding requests, attention of the prefill chunks, then
host work. Decode is bound by memory, prefill by arithmetic, and both come out of the same formula.
"""

from dataclasses import dataclass

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
        self.constants = (e.bandwidth, e.matmul, e.attention, e.overhead)
        self._model = model
        bandwidth = device.bandwidth_bytes_per_s * e.bandwidth.value
        self._byte_as = round(AS_PER_S / bandwidth)
        self._weights_as = model.weight_bytes(tp) * self._byte_as
        matmul = device.flops_per_s * e.matmul.value * tp
        self._token_as = round(model.flops_per_token() / matmul * AS_PER_S)
        self._attention_flops = device.flops_per_s * e.attention.value * tp
        self._overhead_as = round(e.overhead.value * AS_PER_S)

    def linear(self, plan: StepPlan) -> tuple[int, int, int]:
        """(first, growth, valid) of the plan in attoseconds; see `StepCost`."""
        tokens = plan.decodes
        first = self._overhead_as + plan.read_bytes * self._byte_as
        for chunk in plan.chunks:
            tokens += chunk.tokens
            first += self._prefill_attention_as(chunk)
        first += max(self._weights_as, tokens * self._token_as)
        return first, plan.read_growth_bytes * self._byte_as, plan.max_steps

    def _prefill_attention_as(self, chunk: Chunk) -> int:
        """Each token of a chunk attends to all before it and to itself."""
        pairs = chunk.tokens * chunk.start + chunk.tokens * (chunk.tokens + 1) // 2
        return round(self._model.attention_flops(pairs) / self._attention_flops * AS_PER_S)
