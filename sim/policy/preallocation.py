"""Contiguous preallocation: every request gets one buffer at admission, for its whole life."""

from dataclasses import dataclass
from typing import Literal

from sim.policy.counting.slabs import Rings, Slabs
from sim.policy.manager import Manager, Pool
from sim.policy.spec import Placement, Retained
from workloads.errors import InputError


@dataclass(frozen=True)
class Preallocation(Placement):
    """Reserve a buffer per request at admission: the longest context, or a guess of the length.

    What serving systems did before paging: the three Orca variants of Kwon et al., SOSP'23,
    section 6.1. `reserve`: "max" takes `max_len` slots (0: the engine's own longest context);
    "pow2" the prompt and the output rounded up to a power of two; "oracle" the true length.
    `allocator`: "first_fit", or "buddy" as in the paper.
    """

    max_len: int = 0
    reserve: Literal["max", "pow2", "oracle"] = "max"
    allocator: Literal["first_fit", "buddy"] = "first_fit"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_len < 0:
            raise InputError(f"preallocation: max_len={self.max_len}, expected 0 or more")

    def place(self, pool: Pool, retained: Retained) -> Manager:
        longest = min(self.max_len or pool.max_len, pool.max_len)
        slots = longest if retained.kept is None else min(longest, retained.kept)
        if self.reserve == "max" and self.allocator == "first_fit":
            if retained.read is None:
                return Slabs(pool, slots, "preallocation")
            return Rings(pool, slots, retained)
        from sim.policy.counting.buffers import buffers  # late: few runs need an address space

        return buffers(pool, self.reserve, self.allocator, slots, retained)
