"""How an engine runs kernels: what a table of single kernels can't say, as named parameters."""

from dataclasses import dataclass

from sim.cost.base import Constant

V1 = "vLLM 0.19, v1/worker/gpu_model_runner.py"


@dataclass(frozen=True, slots=True)
class KernelRules:
    """Physical effects between a kernel's own time and a step's. 0 or False turns one off."""

    padded_to: int = 512
    """Steps of up to so many tokens replay a CUDA graph captured for the next larger size."""

    whole_tiles: bool = True
    """A matrix product costs as much as the next larger size measured: tiles aren't divided."""

    all_reduce: bool = True
    """Tensor-parallel GPUs sum their results twice a layer, and once for the embedding."""

    length_skew: bool = True
    """Decoding over unequal contexts waits for the longest, where the profile measured it."""

    kernel_time: float = 1.0
    """Times what kernels took when they were profiled, beyond what the profile itself states."""

    kernel_overlap_s: float = 0.0
    """Ramp and drain of kernels timed alone that running back to back hides, per layer and step,
    beyond what the profile itself states."""

    host_overhead_s: float = 0.0
    """Host work per step that the device waits for; hidden where steps are planned ahead."""

    def constants(self) -> tuple[Constant, ...]:
        """For the report."""
        return (
            Constant("graph_padding", self.padded_to, "tokens", f"capture sizes of {V1}"),
            Constant("whole_tiles", int(self.whole_tiles), "", "stairs in measured GEMM times"),
            Constant("length_skew", int(self.length_skew), "", "from the profile, if it has it"),
            Constant("kernel_time", self.kernel_time, "x", "beyond the profile's own"),
            Constant(
                "kernel_overlap", self.kernel_overlap_s, "s/layer", "beyond the profile's own"
            ),
            Constant("host_overhead", self.host_overhead_s, "s/step", "hidden by planning ahead"),
        )


def captured_size(tokens: int, limit: int) -> int:
    """The graph that a step of so many tokens replays: 1, 2, 4, then by 8 to 256, by 16 beyond."""
    if tokens > limit or tokens <= 0:
        return tokens
    if tokens <= 4:
        return 1 << (tokens - 1).bit_length()
    stride = 8 if tokens <= 256 else 16
    return min(-(-tokens // stride) * stride, limit)
