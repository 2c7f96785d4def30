"""How far a KV budget may be off, and how many requests more or fewer that is."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import hypot, sqrt

from sim.memory.capacity import requests_now
from sim.memory.ledger import Ledger
from sim.policy.registry import parse_policy
from sim.units import deviations

LOGGED_BYTES = 256 * 2**20
"""One standard deviation of what a GPU keeps beside weights and KV: the root of the mean square
error of the six foretold budgets in docs/sizing.md that nothing was fitted to."""


@dataclass(frozen=True, slots=True)
class CapacityBounds:
    """Between which bytes of KV a GPU has, and how many requests of a length fit at once then."""

    level: int  # per cent
    kv_bytes: tuple[int, int]
    requests: dict[tuple[str, int], tuple[int, int]]  # by policy and length in tokens


def capacity_bounds(
    ledger: Ledger,
    policies: Iterable[str],
    contexts: tuple[int, ...],
    longest: int,
    *,
    level: int,
    given: bool,
) -> CapacityBounds:
    """At a level in per cent. A `given` budget is what it is.

    Weights of a format that isn't read may be anything in their range; what the engine keeps is
    known from logs. Raises InputError for a level that isn't one of `sim.units.QUANTILES`.
    """
    z, kv = deviations(level), ledger.kv_bytes
    least, most = ledger.model.weights.range_bytes()
    weights = (most - least) / ledger.tp / sqrt(12)  # uniform between them
    margin = 0 if given else round(z * hypot(LOGGED_BYTES, weights))
    ends = max(kv - margin, 0), kv + margin
    ledgers = [_with_kv(ledger, size) for size in ends]
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for policy in policies:
        parsed = parse_policy(policy)
        for tokens in contexts:
            low, high = (requests_now(parsed, one, tokens, longest) for one in ledgers)
            found[policy, tokens] = low, high
    return CapacityBounds(level, ends, found)


def _with_kv(ledger: Ledger, kv_bytes: int) -> Ledger:
    """The lines still sum to the device."""
    unused, *taken, kv = ledger.lines
    moved = kv_bytes - kv.size_bytes
    lines = (
        replace(unused, size_bytes=unused.size_bytes - moved),
        *taken,
        replace(kv, size_bytes=kv_bytes),
    )
    return replace(ledger, lines=lines)
