"""Fixed large chunks on demand: the block reuse that came before PagedAttention."""

from dataclasses import dataclass

from sim.policy.manager import Manager, Pool
from sim.policy.paging import pages
from sim.policy.spec import Placement, Retained
from workloads.errors import InputError


@dataclass(frozen=True)
class Chunked(Placement):
    """Chunks of `chunk_tokens` on demand, reused when freed; the last one is half empty on average.

    The same bookkeeping as paging with large blocks. Kernels read long contiguous runs, but
    internal fragmentation stays, and nothing is shared.
    """

    chunk_tokens: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunk_tokens < 1:
            raise InputError(f"chunked: chunk_tokens={self.chunk_tokens}, expected at least 1")

    def place(self, pool: Pool, retained: Retained) -> Manager:
        return pages(pool, "chunked", self.chunk_tokens, 0.0, retained)
