"""Cache policies. What a policy of one's own needs is named here; docs/adding-a-policy.md."""

from sim.policy.manager import Manager, Memory, Pool
from sim.policy.spec import (
    KEEP_ALL,
    Placement,
    Policy,
    Retained,
    Retention,
    Sharing,
    Storage,
)
from sim.policy.storage import Quantised
from sim.sequence import Sequence

__all__ = [
    "KEEP_ALL",
    "Manager",
    "Memory",
    "Placement",
    "Policy",
    "Pool",
    "Quantised",
    "Retained",
    "Retention",
    "Sequence",
    "Sharing",
    "Storage",
]
