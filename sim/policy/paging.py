"""Paging: fixed blocks on demand from one free pool (PagedAttention, Kwon et al., SOSP'23)."""

from dataclasses import dataclass
from typing import Literal

from sim.policy.counting.capped import Saturating
from sim.policy.counting.pages import Pages
from sim.policy.counting.ring import Ring
from sim.policy.manager import Manager, Pool
from sim.policy.spec import Placement, Retained
from workloads.errors import InputError


@dataclass(frozen=True)
class Paging(Placement):
    """Blocks of `block_size` tokens; only the last block of a sequence is partly empty.

    `watermark` is the share of blocks that admission (never growth) leaves free; vLLM V1 uses 0.
    `layers` says what layers with a window of their own hold: "reserved" takes them for full ones,
    as engines without support do; "unified" has the same blocks over all layers, and shows what
    they hold outside of windows as waste; "capped" gives each group of layers its own blocks from
    one pool and frees those that leave the window (vLLM's hybrid KV cache manager).
    """

    block_size: int = 16
    watermark: float = 0.0
    layers: Literal["reserved", "unified", "capped"] = "reserved"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block_size < 1:
            raise InputError(f"paging: block_size={self.block_size}, expected at least 1")
        if not 0 <= self.watermark < 1:
            raise InputError(f"paging: watermark={self.watermark}, expected 0 <= watermark < 1")

    def place(self, pool: Pool, retained: Retained) -> Manager:
        if pool.states and retained.read is None:
            from sim.policy.state_pages import StatePages  # late: few runs need it

            return StatePages(pool, self.block_size, self.watermark)
        if any(group.selects for group in pool.groups) and retained.read is None:
            from sim.policy.sparse_pages import SparsePages

            return SparsePages(pool, self.block_size, self.watermark)
        if self.layers == "reserved":
            return pages(pool, "paging", self.block_size, self.watermark, retained)
        if retained.read is not None:
            raise InputError(
                f"paging:layers={self.layers}: the layers' own windows decide what is kept; "
                "expected no retention beside it"
            )
        if self.layers == "unified":
            from sim.policy.layer_groups import UnifiedPages  # late: few runs need it

            return UnifiedPages(pool, self.block_size, self.watermark)
        from sim.policy.group_pages import GroupPages

        return GroupPages(pool, self.block_size, self.watermark)


def pages(pool: Pool, name: str, block_size: int, watermark: float, retained: Retained) -> Pages:
    """The manager for blocks of that size under that retention."""
    if retained.landmark_bytes and block_size % retained.page:
        raise InputError(
            f"{name}: blocks of {block_size} tokens can't hold whole pages of {retained.page} "
            f"tokens; expected a top_k page that divides {block_size}"
        )
    if retained.read is None:
        return Pages(pool, block_size, watermark, retained, name)
    kind = SelectPages if retained.kept is None else RingPages
    manager = kind(pool, block_size, watermark, retained, name)
    manager.saturate(retained)
    return manager


class SelectPages(Saturating, Pages):
    """All tokens are kept, and few are read."""


class RingPages(Ring, Pages):
    """A ring of blocks per sequence."""
