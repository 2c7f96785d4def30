"""What data-parallel ranks send each other, and the batches that they compute."""

from collections.abc import Sequence

from sim.cost.base import Constant
from sim.cost.kernels.all_reduce import AllReduce, all_reduce, assumed
from sim.hardware import Device
from sim.model.geometry import Model
from sim.plan import AS_PER_S, StepPlan

UNCHECKED = (
    "data-parallel ranks: tokens are taken to choose experts evenly over them, and no recorded run "
    "has been held against such a prediction"
)
UNMEASURED = (
    "gathering and scattering between data-parallel ranks were not measured: assumed at 20 µs each "
    "and the link's peak rate"
)


def tokens_of(plan: StepPlan | None) -> int:
    """Tokens that a rank computes, padding apart: an idle one is given one."""
    return 1 if plan is None else plan.decodes + plan.prefill_tokens


def batches(tokens: Sequence[int], limit: int) -> list[int]:
    """Tokens of each rank, padded to the largest where all replay graphs of up to `limit` tokens.

    If one of them is too large for a graph nobody replays one, and each computes its own.
    """
    most = max(tokens)
    return [most] * len(tokens) if most <= limit else list(tokens)


class Collectives:
    """What moves a layer's tokens between ranks: an all-gather and a reduce-scatter.

    An all-reduce of all ranks' tokens is one of each, so both together take as long by bytes; two
    kernels start, so that the latency counts twice. `stated`: an all-reduce's numbers and who says
    so; without them the device's link is taken at its peak rate.
    """

    def __init__(
        self, model: Model, device: Device, stated: tuple[dict[str, float], str] | None = None
    ) -> None:
        self._reduce: AllReduce = all_reduce(*stated) if stated else assumed(device)
        self._layers = model.layers
        self._token_bytes = model.hidden_size * model.dtype_bytes
        self.constants: tuple[Constant, ...] = self._reduce
        self.warnings = (UNCHECKED,) if stated else (UNCHECKED, UNMEASURED)

    def step_as(self, tokens: int) -> int:
        """Attoseconds over all layers, for so many tokens of all ranks together."""
        size, reduce = tokens * self._token_bytes, self._reduce
        small = size <= reduce.switch.value
        latency = reduce.small_latency if small else reduce.large_latency
        return round(self._layers * (reduce.seconds(size) + latency.value) * AS_PER_S)
