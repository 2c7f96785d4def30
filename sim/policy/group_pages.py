"""Block tables per group of layers over one pool: vLLM's hybrid KV cache manager, by the block."""

from collections import Counter
from dataclasses import replace
from math import inf
from typing import Any

from sim.policy.counting.block_pool import BlockPool
from sim.policy.group_tables import (
    Held,
    Hit,
    block_names,
    kind_at,
    layers_a_page,
    longest_hit,
)
from sim.policy.layer_groups import Windowed
from sim.policy.manager import Pool
from sim.sequence import Sequence
from workloads.errors import InputError


class GroupPages(Windowed):
    """Block tables per group of equally many layers over one pool of equal pages.

    vLLM's rules (v1/core/kv_cache_utils.py, single_type_kv_cache_manager.py): layers of each kind
    are cut into groups as large as the smallest kind (or the largest, if that is less than 1.5
    times as large); the last group of a kind is padded. Layers of fewer bytes a token get longer
    blocks. A sequence gives back what left its windows when its next step is planned, so a chunk
    under way holds what it reads; without a known size of chunks, as soon as tokens are written.

    `shared`: full blocks are found by content, as `SharedPages` has it; a hit is as long as the
    shortest of all kinds', and a windowed kind needs only its last window of blocks for one
    (v1/core/kv_cache_coordinator.py, HybridKVCacheCoordinator.find_longest_cache_hit). A chunk of
    unknown size then holds its whole context: it reads what was found before it.
    """

    reserves = False

    def __init__(self, pool: Pool, block_size: int, watermark: float, shared: bool = False) -> None:
        super().__init__(pool)
        if not pool.groups:
            raise InputError("paging:layers=capped: expected a pool that knows the model's layers")
        self.count_groups(pool)
        places = [i for i, one in enumerate(pool.stored) if one.key + one.value]
        self.layers_a_page = layers_a_page([pool.groups[i].layers for i in places])
        widest = max(pool.stored[i].key + pool.stored[i].value for i in places)
        self.page_bytes = block_size * self.layers_a_page * widest
        self.kinds = [kind_at(i, pool, self.layers_a_page, block_size) for i in places]
        if shared and not pool.in_flight_tokens:
            self.pool = replace(pool, in_flight_tokens=pool.max_len)
        if shared and len({kind.size for kind in self.kinds}) > 1:
            raise InputError(
                "prefix: layers=capped shares blocks of equal length alone, but layers of this "
                "model store tokens of unequal bytes; expected layers=reserved"
            )
        self.shared = shared
        self.blocks = pool.capacity_bytes // self.page_bytes
        if self.most(1) > self.blocks:
            raise InputError(
                f"paging: the first token takes {self.most(1)} blocks of {self.page_bytes} bytes, "
                f"but the KV budget is {pool.capacity_bytes}; expected a smaller block_size"
            )
        self.cache = BlockPool(self.blocks, len(self.kinds))
        self.kept_back = int((self.blocks + pool.null_blocks) * watermark)
        self._slots = [0] * len(self.kinds)  # tokens that all sequences' tables span, one of each
        self._held: dict[int, Held] = {}
        self._buckets: list[list[dict[int, Held]]] = [
            [{} for _ in range(kind.size)] for kind in self.kinds
        ]  # decoding sequences by (length - tick) modulo the block size
        self._fresh: dict[int, Held] = {}  # those whose first step is still to come

    @property
    def free(self) -> int:
        """Blocks that nobody holds, those with contents included."""
        return self.cache.free

    # -- questions ---------------------------------------------------------------------------

    def most(self, tokens: int) -> int:
        """The most blocks that a sequence holds at any length up to that."""
        flight, longest = self.pool.in_flight_tokens, self.pool.max_len
        return sum(kind.tables * kind.most(tokens, flight, longest) for kind in self.kinds)

    def longest(self) -> int:
        low, high = 1, max(self.pool.max_len, 1)
        while low < high:
            middle = (low + high + 1) // 2
            if self.most(middle) <= self.blocks:
                low = middle
            else:
                high = middle - 1
        return low

    def found(self, seq: Sequence) -> int:
        return self._find(seq)[0]

    def can_admit(self, seq: Sequence) -> bool:
        keep = self.kept_back if self.free < self.blocks else 0
        flight, longest = self.pool.in_flight_tokens, self.pool.max_len
        most = [kind.most(seq.target, flight, longest) for kind in self.kinds]
        return self._to_take(seq, most) <= self.free - keep

    def can_begin(self, seq: Sequence, tokens: int) -> bool:
        """Behind a long prefix a chunk can take more than `most` tells."""
        keep = self.kept_back if self.free < self.blocks else 0
        end = min(seq.target, self._find(seq)[0] + tokens)
        return self._to_take(seq, [-(-end // kind.size) for kind in self.kinds]) <= self.free - keep

    def _to_take(self, seq: Sequence, required: list[int]) -> int:
        """Of so many blocks a table, those that a new sequence takes from the free ones."""
        hit, blocks = self._find(seq)
        need = 0
        for index, kind in enumerate(self.kinds):
            there = max(kind.skipped(hit), hit // kind.size)
            need += kind.tables * max(0, required[index] - there)
            if hit:
                skip = kind.skipped(hit)
                need += sum(not b.refs for table in blocks[index] for b in table[skip:] if b)
        return need

    def can_extend(self, seq: Sequence, tokens: int) -> bool:
        end = seq.stored + tokens
        return self._fits(self._held[seq.index], self._basis(seq.stored, end), end, self.free)

    def _basis(self, start: int, end: int) -> int:
        """Tokens computed for good when a chunk is planned: what its windows are behind."""
        return start if self.pool.in_flight_tokens else max(start, end - 1)

    def _fits(self, held: Held, computed: int, end: int, free: int) -> bool:
        return self._need(held, end) - self._returned(held, computed, end) <= free

    def _need(self, held: Held, end: int) -> int:
        need = 0
        for index, kind in enumerate(self.kinds):
            count = -(-end // kind.size) - len(held.tables[index][0])
            if count > 0:
                need += kind.tables * count
        return need

    def _returned(
        self, held: Held, computed: int, end: int, others: Counter[int] | None = None
    ) -> int:
        """Blocks that get free once so many tokens are computed, or never are taken.

        `others` counts by block who let go of it before in the same step.
        """
        count = 0
        for index, kind in enumerate(self.kinds):
            skip, gone = kind.skipped(computed), held.gone[index]
            if skip <= gone:  # so that tables reach that far, too
                continue
            others = Counter() if others is None else others
            for table in held.tables[index]:
                for block in filter(None, table[gone:skip]):
                    others[id(block)] += 1
                    count += block.refs == others[id(block)]
            never = min(skip, -(-end // kind.size)) - len(held.tables[index][0])
            count += kind.tables * max(0, never)
        return count

    # -- prefilling --------------------------------------------------------------------------

    def admit(self, seq: Sequence) -> None:
        hit, blocks = self._find(seq)
        held = self._held[seq.index] = Held(seq, self.kinds)
        for index, kind in enumerate(self.kinds):
            full, skip = hit // kind.size, kind.skipped(hit)
            held.gone[index], held.named[index] = min(skip, full), full
            self._slots[index] += full * kind.size
            for number, table in enumerate(held.tables[index]):
                if full:
                    table += [None] * skip
                    table += blocks[index][number][skip:]
                for block in table[skip:]:
                    if block:
                        self.cache.touch(block)
        seq.stored = hit
        self.prefilled += hit
        self.windows.keep(hit, 1)

    def extend(self, seq: Sequence, tokens: int) -> None:
        start = seq.stored
        super().extend(seq, tokens)
        # What comes back from the host is computed: only its last windows do.
        computed = seq.stored if seq.swapped else self._basis(start, seq.stored)
        self._advance(self._held[seq.index], computed, seq.stored)

    def _advance(self, held: Held, computed: int, end: int) -> None:
        """Give back what left the windows, take room up to `end`, and name what is full then."""
        self._give_back(held, computed)
        for index, kind in enumerate(self.kinds):
            tables = held.tables[index]
            count = -(-end // kind.size) - len(tables[0])
            if count > 0:
                never = max(0, min(count, held.gone[index] - len(tables[0])))
                self._slots[index] += count * kind.size
                for table in tables:
                    table += [None] * never
                    table += self.cache.take(count - never, index)
        if self.shared:
            self._name(held, end)

    def _give_back(self, held: Held, computed: int) -> None:
        for index, kind in enumerate(self.kinds):
            skip, gone = kind.skipped(computed), held.gone[index]
            if skip > gone:
                for table in held.tables[index]:
                    self.cache.let_go([b for b in reversed(table[gone:skip]) if b])
                    table[gone:skip] = [None] * len(table[gone:skip])
                held.gone[index] = skip

    def _name(self, held: Held, end: int) -> None:
        base = 0
        for index, kind in enumerate(self.kinds):
            full, named = end // kind.size, held.named[index]
            if full > named:
                for offset, (key, place) in enumerate(
                    block_names(held.seq, kind.size, named, full)
                ):
                    for number, table in enumerate(held.tables[index]):
                        if block := table[named + offset]:
                            self.cache.name(block, (base + number, key, place))
                held.named[index] = full
            base += kind.tables

    def _find(self, seq: Sequence) -> Hit:
        """Tokens that all kinds have in the cache, and the blocks of each table."""
        if not self.shared:
            return 0, [[[] for _ in range(kind.tables)] for kind in self.kinds]
        size = self.kinds[0].size
        names = list(block_names(seq, size, 0, (seq.target - 1) // size))
        hit, found = longest_hit(self.kinds, self.cache, names)
        return hit * size, found

    # -- decoding ----------------------------------------------------------------------------

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        held = self._held[seq.index]
        self._fresh[seq.index] = held
        for kind, buckets in zip(self.kinds, self._buckets, strict=True):
            buckets[(seq.stored - self.tick) % kind.size][seq.index] = held

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        self._fresh.pop(seq.index, None)
        for kind, buckets in zip(self.kinds, self._buckets, strict=True):
            del buckets[(seq.stored - self.tick) % kind.size][seq.index]

    def _length(self, held: Held) -> int:
        return held.seq.stored + self.tick - held.seq.joined_tick

    def _in_order(self) -> list[Held]:
        """Those whose blocks change, or might, in the next step, in order of admission."""
        tick, due = self.tick, self._fresh.copy()
        for index, buckets in enumerate(self._buckets):
            kind = self.kinds[index]
            size = kind.size
            due.update(buckets[-tick % size])  # a block begins
            if self.shared and size > 1:
                due.update(buckets[(-1 - tick) % size])  # one is full, and gets its name
            if kind.window is not None:
                due.update(buckets[(kind.window - 1 - tick) % size])  # one leaves the window
        todo = [held for held in due.values() if held.done != tick]
        return sorted(todo, key=lambda held: held.seq.admission)

    def held_by(self, request: int) -> Held:
        """The block tables of a request that was admitted."""
        return self._held[request]

    def _net(self, tick: int) -> tuple[int, int]:
        """Blocks that the step of that tick takes, and the most that it gives back."""
        takes = gives = 0
        for index, buckets in enumerate(self._buckets):
            kind = self.kinds[index]
            size, window = kind.size, kind.window
            takes += kind.tables * len(buckets[-tick % size])
            if window is not None and (full := buckets[(window - 1 - tick) % size]):
                least = size + window - 1 - tick
                for held in full.values():
                    if held.seq.stored - held.seq.joined_tick >= least:
                        gives += kind.tables
        return takes, gives

    def _first(self) -> float:
        """Blocks that the next step takes less those it gives back; infinite if it can't be."""
        free, net, others = self.free, 0, Counter[int]()
        for held in self._in_order():
            length = self._length(held)
            change = self._need(held, length + 1)
            change -= self._returned(held, length, length + 1, others)
            net += change
            if net > free:
                return inf
        return net

    def growable(self, limit: int) -> int:
        if not limit:
            return 0
        return self._linear(limit, self._first())

    def _linear(self, limit: int, net: float) -> int:
        """Steps, at most so many, of which the first takes so many blocks (`_first`)."""
        limit = self.windows.linear_for(limit, self.tick)  # none fills a window before the last
        if net == inf:
            return 0
        if net < 0:
            return 1
        free = self.free - net
        for step in range(1, limit):
            takes, gives = self._net(self.tick + step)
            free -= takes
            if free < 0 or gives > takes:  # blocks that get free may admit a request
                return step
        return limit

    def repeatable(self, limit: int) -> int:
        # A step that frees blocks stands alone: use peaks before it, and admission looks after it.
        return 0 if not limit or (net := self._first()) < 0 else self._linear(limit, net)

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            for held in self._in_order():
                length = self._length(held)
                self._advance(held, length, length + 1)
            self._fresh.clear()
            super().grow(1)

    def strain(self, seq: Sequence | None = None) -> None:
        if seq is not None:
            self._give_back(self._held[seq.index], seq.stored)
            return
        for held in self._in_order():
            length = self._length(held)
            if not self._fits(held, length, length + 1, self.free):
                self._give_back(held, length)
                return
            self._advance(held, length, length + 1)
            held.done = self.tick

    def release(self, seq: Sequence) -> None:
        super().release(seq)
        held = self._held.pop(seq.index)
        for index, kind in enumerate(self.kinds):
            self._slots[index] -= len(held.tables[index][0]) * kind.size
            for table in held.tables[index]:
                self.cache.let_go([block for block in reversed(table) if block])

    # -- memory ------------------------------------------------------------------------------

    def live_by_group(self) -> tuple[tuple[int, int], ...]:
        """With shared blocks, all tokens that are there count, not those in windows alone."""
        if not self.shared:
            return super().live_by_group()
        found = {kind.place: self._there(i) for i, kind in enumerate(self.kinds)}
        return tuple(found.get(place, (0, 0)) for place in range(len(self.pool.groups)))

    def live_bytes(self) -> tuple[int, int]:
        if not self.shared:
            return super().live_bytes()
        payload = side = 0
        for index in range(len(self.kinds)):
            one, beside = self._there(index)
            payload += one
            side += beside
        return payload, side

    def _there(self, index: int) -> tuple[int, int]:
        kind = self.kinds[index]
        empty = self._slots[index] - self.context - self.prefilled
        tokens = self.cache.held[index] * kind.size - kind.tables * empty
        layers = tokens * kind.layers // kind.tables
        return layers * (kind.token_bytes - kind.side_bytes), layers * kind.side_bytes

    def pieces(self) -> tuple[int, int]:
        return self.blocks, self.page_bytes

    def transfer_bytes(self, tokens: int) -> int:
        blocks = (k.tables * (-(-tokens // k.size) - k.skipped(tokens)) for k in self.kinds)
        return sum(blocks) * self.page_bytes  # what left the windows is gone

    def missing_bytes(self, kept: int, found: int) -> int:
        """Windows behind fewer tokens are others: what was found before the kept one is no help."""
        blocks = 0
        for kind in self.kinds:
            there = max(kind.skipped(kept), found // kind.size)
            blocks += kind.tables * max(0, -(-kept // kind.size) - there)
        return blocks * self.page_bytes

    def tally(self) -> tuple[int, ...]:
        """Live bytes, of payload and of side data, free blocks, and those of them with contents."""
        idle = self.cache.idle
        return *self.live_bytes(), self.cache.blank + idle, idle

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        live, side, free, cached = tally
        page = self.page_bytes
        internal = (self.blocks - free) * page - live - side
        remainder = self.pool.capacity_bytes - self.blocks * page
        return live, 0, internal, remainder, side, free * page, cached * page

    def check_integrity(self) -> None:
        super().check_integrity()
        self.cache.check_integrity()
        for buckets in self._buckets:
            assert sum(map(len, buckets)) == self.decoding
