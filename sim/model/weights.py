"""How many weights a model has, by what a step does with them, and the bytes they take."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

DIVIDED = ("embedding", "lm_head", "attention", "recurrent", "mlp", "shared", "experts", "other")
"""Classes of which each GPU holds a share. Key and value projections are copied where GPUs
outnumber KV heads; norms, biases and the router are on every GPU."""
CLASSES = (*DIVIDED, "kv_projection", "router", "vectors")


class Stored(NamedTuple):
    """How a class of weights is stored: `bits` for each `weights` of them, scales included, which
    is exact for block formats. MXFP4 keeps 32 weights of 4 bits and a scale of 8 in 136 bits."""

    field: str
    bits: int
    weights: int
    share: Fraction = Fraction(1)  # of the class; the rest is stored in the model's own type


@dataclass(frozen=True, slots=True)
class Weights:
    """Counts of parameters."""

    embedding: int  # tables that are looked up, not multiplied
    lm_head: int  # 0 where the output projection is the embedding table itself
    attention: int  # query and output projections
    kv_projection: int  # key and value projections: copied where GPUs outnumber KV heads
    mlp: int  # dense MLPs
    router: int
    experts: int  # all routed experts
    active_experts: int  # the routed experts that one token passes
    vectors: int  # norms and biases, on every GPU
    shared: int = 0  # experts that every token passes
    recurrent: int = 0  # projections of layers that keep a state
    other: int = 0  # vision tower and projector: resident, idle for text
    expert_inner: int = 0  # the inner size of a routed expert
    expert_count: int = 0  # routed experts of a layer that has some; 0: not known
    dtype_bytes: int = 2
    stored: tuple[Stored, ...] = ()  # classes that aren't in the model's own type
    unsure: tuple[str, ...] = ()  # classes whose storage isn't known: taken for the model's type
    slack: Fraction = Fraction(0)  # share of the parameters by which their count may be wrong
    scale: Fraction = Fraction(1)  # what a checkpoint's index says over what was counted

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(int(getattr(self, field)) for field in CLASSES)

    @property
    def multiplied(self) -> int:
        """Parameters that every token is multiplied with, the output projection apart."""
        dense = self.attention + self.kv_projection + self.mlp + self.shared + self.recurrent
        return dense + self.router + self.active_experts

    def field_bytes(self, field: str, count: int | None = None) -> int:
        """Bytes of `count` parameters (None: all) stored the way that field is."""
        if count is None:
            count = int(getattr(self, field))
        packed = plain = 0
        left = count
        for one in self.stored:
            if one.field == field:
                part = int(count * one.share)
                packed += -(-part * one.bits // (one.weights * 8))
                left -= part
        plain = left * self.dtype_bytes
        return packed + plain if self.scale == 1 else math.ceil((packed + plain) * self.scale)

    def bytes_per_gpu(self, tp: int, kv_ranks: int, expert_ranks: int = 1) -> int:
        """Bytes on one of `tp` GPUs; key and value projections are divided `kv_ranks` ways, and
        routed experts over the GPUs of `expert_ranks` data-parallel ranks.

        Shares are rounded up.
        """
        ways = {"experts": tp * expert_ranks}
        return (
            sum(-(-self.field_bytes(field) // ways.get(field, tp)) for field in DIVIDED)
            + -(-self.field_bytes("kv_projection") // kv_ranks)
            + self.field_bytes("router")
            + self.field_bytes("vectors")
        )

    def range_bytes(self) -> tuple[int, int]:
        """The least and the most that all weights may take: equal where all is known.

        Classes of unknown storage take at least 4 bits a weight.
        """
        most = sum(self.field_bytes(field) for field in CLASSES)
        unknown = sum(self.field_bytes(field) for field in self.unsure)
        least = most - unknown + unknown // (2 * self.dtype_bytes)
        return int(least * (1 - self.slack)), math.ceil(most * (1 + self.slack))

    def read_bytes(self, tokens: int) -> int:
        """Bytes of weights a step over that many tokens reads at least once.

        Embedding tables are looked up, not read. Of the routed experts, a share of
        1 − (1 − active/all)^tokens is expected to be touched if each token chooses evenly.
        """
        fields = (
            "lm_head", "attention", "kv_projection", "recurrent", "mlp", "shared", "router",
            "vectors",
        )  # fmt: skip
        dense = sum(self.field_bytes(field) for field in fields)
        if not self.lm_head:  # tied: the table is the output projection too
            dense += self.field_bytes("embedding")
        if not self.experts:
            return dense
        touched = 1 - (1 - self.active_experts / self.experts) ** tokens
        return dense + self.field_bytes("experts", round(self.experts * touched))
