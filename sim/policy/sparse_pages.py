"""Paging for sparse latent attention: all tokens are kept, a query reads the chosen ones."""

from sim.policy.counting.capped import Saturating
from sim.policy.counting.pages import Pages
from sim.policy.manager import Pool
from sim.policy.spec import Retained


class SparsePages(Saturating, Pages):
    """Blocks on demand. A step reads every indexer's keys, and the latent vectors it chooses."""

    def __init__(self, pool: Pool, block_size: int, watermark: float) -> None:
        super().__init__(pool, block_size, watermark)
        groups = list(zip(pool.groups, pool.stored, strict=True))
        self.chosen_bytes = sum(
            group.layers * (stored.key + stored.value)
            for group, stored in groups
            if group.selects is not None
        )
        self.scanned_bytes = pool.token_bytes - self.chosen_bytes
        most = max(group.selects or 1 for group in pool.groups)
        self.saturate(Retained(read=most))

    def reads(self) -> tuple[int, int]:
        return (
            self.seen.total * self.chosen_bytes + self.context * self.scanned_bytes,
            self.seen.growing * self.chosen_bytes + self.decoding * self.scanned_bytes,
        )
