"""Requests at once against their length, and what one more GPU or fewer bytes would buy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sim.memory.ledger import Ledger
from sim.memory.sizing import fill
from sim.model.kv_formats import KV_DTYPES
from sim.policy.spec import Policy
from workloads.errors import InputError

SHORTEST = 1024  # tokens; the curve's first point, doubled up to the longest


@dataclass(frozen=True, slots=True)
class Curve:
    """How many requests of each length fit at once in an engine of one longest context.

    Longer lengths than that are counted in an engine that serves just them.
    """

    label: str
    points: tuple[tuple[int, int], ...]  # tokens, requests


def lengths(longest: int, asked: tuple[int, ...]) -> list[int]:
    """Doubling lengths up to the longest, and those asked for."""
    doubling = [SHORTEST << i for i in range(20) if SHORTEST << i <= longest]
    return sorted({*doubling, longest, *asked})


def curve(policy: Policy, label: str, ledger: Ledger, contexts: list[int], longest: int) -> Curve:
    """The curve of one policy under one ledger and longest context."""
    points = [(tokens, requests_now(policy, ledger, tokens, longest)) for tokens in contexts]
    return Curve(label, tuple(points))


def run_curves(policy: Policy, label: str, ledger: Ledger, longest: int) -> list[Curve]:
    """What a run could hold at once: its own KV, and the same in 8-bit floats where it is wider."""
    contexts = lengths(longest, ())
    ledgers = [ledger, in_8_bits(ledger)]
    found = [
        curve(policy, f"{label}, {one.kv.name}", one, contexts, longest) for one in ledgers if one
    ]
    return [one for one in found if any(requests for _, requests in one.points)]


def in_8_bits(ledger: Ledger) -> Ledger | None:
    """The same memory with KV in 8-bit floats; None where it is in 8 bits or fewer already."""
    return replace(ledger, kv=KV_DTYPES["fp8"]) if ledger.kv.bits > 8 else None


def requests_now(policy: Policy, ledger: Ledger, tokens: int, longest: int) -> int:
    """Requests of that length at once; 0 where the memory can't hold the policy's least.

    The engine's longest context decides too: a whole buffer is as long as that.
    """
    try:
        manager = policy.manager(ledger.pool(max(longest, tokens)))
    except InputError:
        return 0
    return fill(manager, tokens).requests


def would_buy(
    policy: Policy, ledger: Ledger, tokens: int, longest: int, more_gpus: Ledger | None
) -> Iterator[tuple[str, int]]:
    """Changes after which requests of that length (or half of it, or half of that) fit at once.

    Halving the longest length asked for halves the longest context, where that is no longer.
    """
    if more_gpus is not None and (found := requests_now(policy, more_gpus, tokens, longest)):
        yield f"{more_gpus.tp} GPUs instead of {ledger.tp}", found
    if (halved := in_8_bits(ledger)) is not None:
        found = requests_now(policy, halved, tokens, longest)
        if found:  # a policy that stores in 8 bits itself refuses
            yield "--kv-cache-dtype fp8", found
    shorter = tokens
    while (shorter := shorter // 2) > 0:
        found = requests_now(policy, ledger, shorter, longest if longest > tokens else shorter)
        if found:
            yield f"contexts of {shorter:,} tokens", found
            return


def binding(requests: int, max_num_seqs: int, tokens: int) -> str:
    """What keeps more requests of that length from running."""
    if requests >= max_num_seqs:
        return (
            f"--max-num-seqs {max_num_seqs:,} binds at {tokens:,} tokens: KV memory would hold "
            f"{requests:,}"
        )
    return (
        f"KV memory binds at {tokens:,} tokens: {requests:,} requests of the {max_num_seqs:,} that "
        "--max-num-seqs allows"
    )


def next_larger(make: Callable[[int], Ledger], tp: int) -> Ledger | None:
    """The ledger on the next number of GPUs that divides the model, up to twice as many."""
    for more in range(tp + 1, 2 * tp + 1):
        try:
            return make(more)
        except InputError:
            continue
    return None
