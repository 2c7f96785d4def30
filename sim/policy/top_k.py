"""Top-k attention: few tokens matter, so few are read; whether few are kept is another matter."""

from dataclasses import dataclass
from typing import Literal

from sim.policy.manager import Pool, Stored
from sim.policy.spec import Retained, Retention
from workloads.errors import InputError

SCORE_BYTES = 4  # an accumulated attention score is a 32-bit float
LANDMARK_ELEMENT_BYTES = 2  # bounds of keys are kept in 16 bits, whatever keys are stored in


@dataclass(frozen=True)
class TopK(Retention):
    """Attend to the `k` most important tokens, in one of two forms.

    "select" keeps every token and reads k, which it finds by reading the landmarks of all pages
    of `page` tokens: the least and greatest of each key channel (Tang et al., Quest, ICML'24). It
    saves reads, not memory. "evict" keeps k tokens, recent ones and heavy hitters, and a score
    for each per layer and head (Zhang et al., H2O, NeurIPS'23). It saves both, but what is
    evicted can't come back.
    """

    k: int = 256
    mode: Literal["select", "evict"] = "select"
    page: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise InputError(f"top_k: k={self.k}, expected at least 1")
        if self.page < 1:
            raise InputError(f"top_k: page={self.page}, expected at least 1")

    @property
    def limitation(self) -> str | None:
        if self.mode == "select":
            return "attends to chosen tokens alone"
        return "forgets tokens that were evicted"

    def apply(self, pool: Pool) -> tuple[Pool, Retained]:
        if not pool.groups:
            raise InputError("top_k: expected a pool that knows the model's layers")
        cap = min(self.k, pool.max_len)
        if self.mode == "select":
            return pool, Retained(None, cap, self.page, landmark_bytes(pool))
        scored = []
        for group, stored in zip(pool.groups, pool.stored, strict=True):
            score = 0 if group.kind == "shared" else group.heads_per_rank(pool.tp) * SCORE_BYTES
            key, side = stored.key + score, stored.side + score
            scored.append(Stored(key, stored.value, side))
        return pool.storing(tuple(scored)), Retained(cap, cap)


def landmark_bytes(pool: Pool) -> int:
    """Bytes of one page's landmarks on this device: two vectors like a key, per layer and head."""
    vectors = 2 * LANDMARK_ELEMENT_BYTES
    return sum(
        group.layers * group.heads_per_rank(pool.tp) * group.head_dim * vectors
        for group in pool.groups
        if group.kind != "shared"
    )
