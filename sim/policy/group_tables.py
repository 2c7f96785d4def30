"""What layers of one kind hold of a sequence, and what of it all kinds find in the cache."""

from collections.abc import Iterable
from collections.abc import Sequence as Listed
from dataclasses import dataclass

from sim.policy.counting.block_pool import Block, BlockPool
from sim.policy.manager import Pool
from sim.policy.shared_pages import chain
from sim.sequence import Sequence
from workloads.errors import InputError

Tables = list[list[Block | None]]
"""Of one kind; None where a block was given back."""

Hit = tuple[int, list[Tables]]


@dataclass(frozen=True, slots=True)
class Kind:
    """Layers of one kind: how many block tables they take and what those hold."""

    place: int  # of its group among the pool's
    layers: int
    window: int | None  # tokens of the past that they read; None: all
    tables: int
    size: int  # tokens a block
    token_bytes: int  # in one layer, side data included
    side_bytes: int

    def skipped(self, computed: int) -> int:
        """Blocks before the window of the token that comes after so many."""
        window = self.window
        return 0 if window is None or computed < window else (computed - window + 1) // self.size

    def most(self, tokens: int, in_flight: int, longest: int) -> int:
        """Blocks of a table at most, at any length up to that: what admission asks for.

        A window that isn't aligned touches one block more; a chunk under way holds all that it
        reads (vLLM: SlidingWindowSpec.max_admission_blocks_per_request).
        """
        blocks = -(-tokens // self.size)
        if self.window is None:
            return blocks
        reach = min(self.window - 1 + in_flight, longest)
        return min(blocks, -(-reach // self.size) + 1)


def kind_at(place: int, pool: Pool, layers_a_page: int, block_size: int) -> Kind:
    """The kind of the pool's group at that place; the widest tokens have blocks of that size.

    Raises InputError where tokens of others don't divide those.
    """
    group, one = pool.groups[place], pool.stored[place]
    token, widest = one.key + one.value, max(each.key + each.value for each in pool.stored)
    ratio, rest = divmod(widest, token)
    if rest:
        raise InputError(
            f"paging:layers=capped: {group.kind} layers of {token} B a "
            f"token can't share pages with layers of {widest}; expected layers=unified"
        )
    tables, size = -(-group.layers // layers_a_page), block_size * ratio
    return Kind(place, group.layers, group.window, tables, size, token, one.side)


class Held:
    """A sequence's tables, and how far each kind's blocks are dealt with."""

    __slots__ = ("done", "gone", "named", "seq", "tables")

    def __init__(self, seq: Sequence, kinds: Listed[Kind]) -> None:
        self.seq = seq
        self.tables: list[list[list[Block | None]]] = [[[] for _ in range(k.tables)] for k in kinds]
        self.gone = [0] * len(kinds)  # blocks given back, from the first on
        self.named = [0] * len(kinds)  # blocks whose contents have their names
        self.done = -1  # the tick of the step that it has taken memory for already


def block_names(seq: Sequence, size: int, first: int, last: int) -> Iterable[tuple[int, int]]:
    """What blocks [first, last) are called: the run, and the block in it."""
    if seq.chain is None:
        seq.chain = chain(seq, size)
    start = 0
    for key, blocks in seq.chain:
        for place in range(max(first, start), min(last, start + blocks)):
            yield key, place - start
        start += blocks
        if start >= last:
            return


def longest_hit(kinds: Listed[Kind], cache: BlockPool, names: Listed[tuple[int, int]]) -> Hit:
    """Blocks of these names that all kinds have, and each table's: the hit shrinks until all agree.

    vLLM v1/core/kv_cache_coordinator.py, HybridKVCacheCoordinator.find_longest_cache_hit.
    """
    full = [i for i, kind in enumerate(kinds) if kind.window is None]
    order = [*full, *(i for i in range(len(kinds)) if i not in full)]
    base = [sum(kind.tables for kind in kinds[:i]) for i in range(len(kinds))]
    found: list[Tables] = [[] for _ in kinds]
    reach: dict[int, int] = {}  # of kinds without a window, which needn't be asked again
    hit = len(names)
    while True:
        now = hit
        for index in order:
            if index in reach:
                now = min(now, reach[index])
                continue
            found[index], now = _hit_of(kinds[index], base[index], names[:now], cache)
            if index in full:
                reach[index] = now
        if now >= hit:
            break
        hit = now
    for index in full:
        found[index] = [table[:hit] for table in found[index]]
    return hit, found


def _hit_of(
    kind: Kind, base: int, names: Listed[tuple[int, int]], cache: BlockPool
) -> tuple[Tables, int]:
    """The longest hit of one kind, in blocks: from the left, or of a window from the right."""

    numbers = range(base, base + kind.tables)

    def copies(place: int) -> list[Block] | None:
        key, number = names[place]
        found = []
        for table in numbers:
            block = cache.find((table, key, number))
            if block is None:
                return None
            found.append(block)
        return found

    tables: Tables = [[] for _ in range(kind.tables)]
    if kind.window is None:
        for place in range(len(names)):
            if not (there := copies(place)):
                return tables, place
            for table, block in zip(tables, there, strict=True):
                table.append(block)
        return tables, len(names)
    need, run = -(-(kind.window - 1) // kind.size), 0
    tables = [[None] * len(names) for _ in range(kind.tables)]
    for place in range(len(names) - 1, -1, -1):
        if not (there := copies(place)):
            run = 0
            continue
        for table, block in zip(tables, there, strict=True):
            table[place] = block
        run += 1
        if run >= need:
            return [table[: place + run] for table in tables], place + run
    return [table[:run] for table in tables], run


def layers_a_page(layers: list[int]) -> int:
    """Layers that share a page: vLLM's rule, by the number of layers of each kind."""
    return max(layers) if max(layers) < 1.5 * min(layers) else min(layers)
