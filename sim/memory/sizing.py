"""How many requests fit: counted by admitting them to the policy's own manager."""

import gc
from collections.abc import Iterator
from collections.abc import Sequence as Lengths
from contextlib import contextmanager
from dataclasses import dataclass

from sim.memory.ledger import Ledger
from sim.model.geometry import Model
from sim.policy.answers import Untrue, fresh, memory_of
from sim.policy.counting.pages import Pages
from sim.policy.group_pages import GroupPages
from sim.policy.manager import Manager, Memory, Pool
from sim.policy.spec import Policy
from sim.sequence import Sequence
from workloads.errors import InputError


@dataclass(frozen=True, slots=True)
class Fit:
    """What happens to requests of one length (prompt and output together, in tokens of KV)."""

    context_tokens: int
    requests: int  # how many fit at once
    memory: Memory  # the whole KV budget at their end
    groups: tuple[tuple[int, int], ...]  # payload and side data of each of the model's layer groups

    @property
    def held_bytes(self) -> int:
        """What they hold, metadata included."""
        memory = self.memory
        return memory.live + memory.reserved + memory.internal + memory.metadata

    @property
    def live_bytes(self) -> int:
        """Of that, KV of tokens written."""
        return self.memory.live


def explain(model: Model, fit: Fit) -> list[tuple[str, int]]:
    """Every byte of the KV budget under a fit, by use and group of layers; the lines sum to it."""
    memory, lines = fit.memory, list[tuple[str, int]]()
    for use, part in (("payload", 0), ("scales", 1)):
        for group, share in zip(model.groups, fit.groups, strict=True):
            whose = "" if len(model.groups) == 1 else f" of {group.layers} {group.kind} layers"
            lines.append((use + whose, share[part]))
    lines.append(("states of sequences", memory.live - sum(live for live, _ in fit.groups)))
    lines.append(("landmarks", memory.metadata - sum(side for _, side in fit.groups)))
    return [
        *(line for line in lines if line[1]),
        ("reserved", memory.reserved),
        ("internal: tails, dead tokens", memory.internal),
        ("external: holes, rounding", memory.external),
        ("free", memory.free),
    ]


@dataclass(frozen=True, slots=True)
class Sizing:
    """One policy over one pool."""

    policy: str
    max_model_len: int
    token_bytes: int  # of one token as the policy stores it, side data included
    payload_bytes: int  # of that, without side data
    blocks: int | None  # for policies that cut the pool into equal pieces
    block_bytes: int | None
    longest_tokens: int  # the longest single request that fits alone, up to the longest context
    cache_tokens: int | None  # for paged policies: blocks × block size
    host_blocks: int | None  # blocks that the swap space holds
    fits: tuple[Fit, ...]
    together: Fit | None  # one request of each length, where there are several and all fit

    @property
    def table_bytes(self) -> int | None:
        """For paged policies: a sequence's block table at the longest context, 4 bytes a block."""
        if not self.cache_tokens or not self.blocks:
            return None
        return 4 * -(-self.max_model_len // (self.cache_tokens // self.blocks))

    @property
    def concurrency(self) -> float | None:
        """Cache tokens over the longest context: what vLLM logs as maximum concurrency."""
        return None if self.cache_tokens is None else self.cache_tokens / self.max_model_len


def size_policy(
    policy: Policy, name: str, pool: Pool, contexts: Lengths[int], swap_bytes: int = 0
) -> Sizing:
    """Fill fresh managers of the policy with requests of each length.

    `swap_bytes` is host memory per GPU for preempted blocks (vLLM V0's swap space).

    Raises InputError for a length that isn't positive or is above the pool's longest context.
    """
    for tokens in contexts:
        if tokens < 1:
            raise InputError(f"--context {tokens}: expected at least 1 token")
        if tokens > pool.max_len:
            raise InputError(
                f"--context {tokens}: expected 1 to the longest context (--max-model-len), "
                f"{pool.max_len} tokens"
            )
    manager = fresh(policy, pool)
    pages = manager if isinstance(manager, Pages) else None
    blocks, block_bytes = manager.pieces() or (None, None)
    fits = tuple(fill(fresh(policy, pool), tokens) for tokens in contexts)
    return Sizing(
        policy=name,
        max_model_len=pool.max_len,
        token_bytes=manager.pool.token_bytes,
        payload_bytes=manager.pool.payload_bytes,
        blocks=blocks,
        block_bytes=block_bytes,
        longest_tokens=min(manager.longest(), pool.max_len),
        cache_tokens=pages.blocks * pages.block_size if pages else None,
        host_blocks=swap_bytes // block_bytes if block_bytes else None,
        fits=fits,
        together=_together(fresh(policy, pool), contexts) if len(contexts) > 1 else None,
    )


def fill(manager: Manager, context_tokens: int) -> Fit:
    """Admit and extend equal requests until the manager refuses one. Changes the manager."""
    most = manager.pool.capacity_bytes // max(1, manager.pool.token_bytes)  # a token each
    alone = context_tokens <= manager.longest()
    if alone and type(manager) is GroupPages:
        return _fill_groups(manager, context_tokens)
    if alone and type(manager) is Pages:
        return _fill_pages(manager, context_tokens)
    with _no_collection():
        for index in range(most + 1):
            if not alone or not _place(manager, index, context_tokens):
                return _fit(manager, context_tokens, index)
    raise Untrue(
        f"can_admit() takes more requests than the pool has room for tokens ({most:,}); expected "
        "that it refuses"
    )


def _fill_groups(manager: GroupPages, context_tokens: int) -> Fit:
    """The same by arithmetic, for each block there is an object: half a million requests of a small
    model took most of a minute.

    Equal requests of unlike content hold equally many blocks, and whether one more is admitted and
    written is told by how many are free.
    """
    if not _place(manager, 0, context_tokens):
        return _fit(manager, context_tokens, 0)
    one = _fit(manager, context_tokens, 1)
    held = manager.blocks - manager.free
    asked = max(manager.most(context_tokens) + manager.kept_back, held)
    count = 1 + max(0, (manager.free - asked) // held + 1)
    memory = one.memory._replace(
        live=count * one.memory.live,
        internal=count * one.memory.internal,
        metadata=count * one.memory.metadata,
        free=one.memory.free - (count - 1) * held * manager.page_bytes,
    )
    groups = tuple((count * payload, count * side) for payload, side in one.groups)
    return Fit(context_tokens, count, memory, groups)


def _fill_pages(manager: Pages, context_tokens: int) -> Fit:
    """The same by arithmetic, where all that a manager keeps is how many blocks are free.

    Each request after the first takes as many, and is admitted while those free are that many and
    what admission keeps back. A small model's curve is a million requests otherwise.
    """
    if not _place(manager, 0, context_tokens):
        return _fit(manager, context_tokens, 0)
    held = manager.blocks - manager.free
    more = max(0, (manager.free - manager.kept_back) // held)
    manager.free -= more * held
    manager.prefilled += more * manager.prefilled
    return _fit(manager, context_tokens, 1 + more)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's collector walks a full pool's blocks again and again: half of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _together(manager: Manager, contexts: Lengths[int]) -> Fit | None:
    alone = max(contexts) <= manager.longest()
    if alone and all(_place(manager, index, tokens) for index, tokens in enumerate(contexts)):
        return _fit(manager, sum(contexts), len(contexts))
    return None


def _place(manager: Manager, index: int, tokens: int) -> bool:
    """Admit a request that fits alone and write all its KV, if that fits.

    The last sampled token is never written, so a prompt of n tokens and one of output holds n.
    """
    sequence = Sequence(index, 0, prompt=tokens, output=1)
    if not manager.can_admit(sequence):
        return False
    manager.admit(sequence)
    fits = manager.can_extend(sequence, tokens)
    if fits:
        manager.extend(sequence, tokens)
    else:
        manager.release(sequence)
    return fits


def _fit(manager: Manager, context_tokens: int, requests: int) -> Fit:
    return Fit(context_tokens, requests, memory_of(manager), manager.live_by_group())


def window_capped_requests(ledger: Ledger, context_tokens: int) -> int:
    """Requests that fit if each layer group keeps only its window: an upper bound for engines
    that allocate per group, which round each group up to pages.
    """
    need = ledger.model.kv_sequence_bytes(context_tokens, ledger.kv, ledger.tp)
    return ledger.kv_bytes // need
