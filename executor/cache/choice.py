"""Which table follows which manager."""

from collections.abc import Callable

from executor.cache.buffers import Buffers
from executor.cache.contiguous import Contiguous
from executor.cache.grouped import Grouped, SharedGroups, Unified
from executor.cache.paged import Paged
from executor.cache.ring import Ring
from executor.cache.selected import Selected
from executor.cache.shared import Shared
from executor.cache.table import Table
from executor.cache.virtual import Virtual
from sim.policy.counting import buffers
from sim.policy.counting.capped import Saturating
from sim.policy.counting.pages import Pages
from sim.policy.counting.slabs import Rings, Slabs
from sim.policy.group_pages import GroupPages
from sim.policy.layer_groups import UnifiedPages
from sim.policy.manager import Manager
from sim.policy.paging import RingPages, SelectPages
from sim.policy.shared_pages import SharedPages
from sim.policy.sliding_window import SlidingWindow
from sim.policy.spec import Policy
from sim.policy.top_k import TopK
from sim.policy.virtual import VirtualPages
from workloads.errors import InputError


def table_for(manager: Manager, policy: Policy) -> Table:
    """The table that follows this policy's manager, over an equal pool.

    Raises InputError for a policy that has no tensors behind it; what is known to have none says
    `refusal` of executor/device/refusals.py.
    """
    own: Callable[[], Table] | None = getattr(manager, "table", None)
    if own is not None:  # a third party's manager brings its table with it
        return own()
    retention = getattr(policy, "retention", None) or policy
    ring = None
    if isinstance(manager, Saturating) and isinstance(retention, SlidingWindow):
        ring = Ring(manager.cap, min(retention.sinks, manager.cap - 1))
    if isinstance(manager, Saturating) and manager.evicts and isinstance(retention, TopK):
        ring = Ring(manager.cap, manager.cap // 2, scored=True)
    if isinstance(manager, UnifiedPages):
        return Unified(manager)
    if isinstance(manager, GroupPages):
        return SharedGroups(manager) if manager.shared else Grouped(manager)
    if ring or not isinstance(manager, Saturating):
        if type(manager) in (Slabs, Rings):
            assert isinstance(manager, Slabs)
            return Contiguous(manager.total, manager.slots, ring)
        if type(manager) in (Pages, RingPages):
            assert isinstance(manager, Pages)
            return Paged(manager.blocks, manager.block_size, ring)
        if isinstance(manager, SharedPages):
            return Shared(manager)
        if isinstance(manager, buffers.Contiguous):
            return Buffers(manager, ring)
        if isinstance(manager, VirtualPages):
            return Virtual(manager, ring)
    elif type(manager) is SelectPages and manager.block_size == getattr(retention, "page", None):
        count = max(1, manager.cap // manager.block_size)
        return Selected(manager.blocks, manager.block_size, count, manager.landmark_bytes)
    raise InputError(
        f"{type(manager).__name__} has no table, so it is simulated and not executed; expected a "
        "method table() of it (docs/adding-a-policy.md)"
    )
