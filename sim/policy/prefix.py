"""Prefix caching as a modifier: `paging:block_size=16+prefix`."""

from dataclasses import dataclass
from typing import Literal

from sim.policy.manager import Manager, Pool
from sim.policy.paging import Paging
from sim.policy.queued_pages import QueuedPages
from sim.policy.shared_pages import SharedPages
from sim.policy.spec import Placement, Retained, Sharing
from workloads.errors import InputError


@dataclass(frozen=True)
class Prefix(Sharing):
    """Requests with equal beginnings share blocks, where the trace names them (vLLM V1).

    `reuse` says which free blocks are used first: "blank" takes those without contents before any
    with contents (vLLM 0.32), "oldest" all in the order in which they were let go (vLLM 0.19); None
    is as the run's engine does, "blank" where there is none.
    """

    reuse: Literal["blank", "oldest"] | None = None

    def share(self, placement: Placement, pool: Pool, retained: Retained) -> Manager:
        if not isinstance(placement, Paging) or placement.layers == "unified":
            raise InputError(
                "prefix: shares the blocks of paging, expected layers reserved or capped"
            )
        if retained.read is not None:
            raise InputError("prefix: whole prefixes are shared; expected no retention beside it")
        if self.reuse == "oldest":
            if placement.layers == "capped":
                raise InputError("prefix: reuse=oldest, expected layers=reserved")
            return QueuedPages(pool, placement.block_size, placement.watermark)
        if placement.layers == "capped":
            from sim.policy.group_pages import GroupPages  # late: few runs need it

            return GroupPages(pool, placement.block_size, placement.watermark, shared=True)
        return SharedPages(pool, placement.block_size, placement.watermark)
