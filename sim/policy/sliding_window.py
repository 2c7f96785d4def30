"""Sliding window with attention sinks: a ring of bounded size per request."""

from dataclasses import dataclass

from sim.policy.counting.slabs import Rings
from sim.policy.manager import Manager, Pool
from sim.policy.spec import Retained, Retention
from workloads.errors import InputError


@dataclass(frozen=True)
class SlidingWindow(Retention):
    """Keep the first `sinks` tokens and the last `window`, the query's own included.

    Older tokens are overwritten, so attention to them is lost (Xiao et al., StreamingLLM,
    ICLR'24: without sinks quality collapses). The ring is min(window + sinks, longest context).
    Alone it stands for preallocation+sliding_window.
    """

    window: int = 4096
    sinks: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 1:
            raise InputError(f"sliding_window: window={self.window}, expected at least 1")
        if self.sinks < 0:
            raise InputError(f"sliding_window: sinks={self.sinks}, expected 0 or more")

    @property
    def limitation(self) -> str | None:
        return "forgets tokens between the sinks and the window"

    def apply(self, pool: Pool) -> tuple[Pool, Retained]:
        ring = min(self.window + self.sinks, pool.max_len)
        return pool, Retained(kept=ring, read=ring)

    def manager(self, pool: Pool) -> Manager:
        _, retained = self.apply(pool)
        assert retained.kept is not None
        return Rings(pool, retained.kept, retained)
