"""What equal layers store of a sequence, however long it is: the state of a recurrence."""

from dataclasses import dataclass
from typing import Literal

StateKind = Literal["gated_delta_net", "kda", "lightning", "mamba", "mamba2", "short_conv", "cross"]


@dataclass(frozen=True, slots=True)
class StatePart:
    """One tensor of a state."""

    name: str
    elements: int  # over all GPUs, for one sequence and layer
    element_bytes: int  # of its own type, which --kv-cache-dtype doesn't change
    shards: int  # GPUs it can be divided over; further ones hold copies

    def bytes_per_rank(self, tp: int) -> int:
        """Bytes on one of `tp` GPUs."""
        return -(-self.elements // min(tp, self.shards)) * self.element_bytes


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Equal layers whose memory of a sequence has one size."""

    layers: int
    kind: StateKind
    parts: tuple[StatePart, ...]

    def layer_bytes(self, tp: int = 1) -> int:
        """Bytes of a sequence in one layer on one of `tp` GPUs."""
        return sum(part.bytes_per_rank(tp) for part in self.parts)

    def sequence_bytes(self, tp: int = 1) -> int:
        """Bytes of a sequence over all these layers on one of `tp` GPUs."""
        return self.layers * self.layer_bytes(tp)

    def formula(self, tp: int = 1) -> str:
        """`sequence_bytes` with its factors: `6 kda layers × (conv 61,440 + state 3,145,728) B`."""
        parts = " + ".join(f"{part.name} {part.bytes_per_rank(tp):,}" for part in self.parts)
        return f"{self.layers} {self.kind} layers × ({parts}) B"
