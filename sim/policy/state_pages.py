"""Paging for models whose recurrent layers keep a state of each sequence, whatever its length."""

from dataclasses import dataclass
from typing import Any

from sim.policy.counting.pages import Pages
from sim.policy.counting.periodic import Periodic
from sim.policy.group_tables import layers_a_page
from sim.policy.manager import Pool
from sim.sequence import Sequence
from workloads.errors import InputError

LATENT_BLOCK = 128  # tokens of which a block of latent vectors is a multiple beside states


@dataclass(frozen=True, slots=True)
class Cut:
    """How a pool of equal blocks serves layers that grow and layers that don't."""

    block_size: int  # tokens of a block
    block_bytes: int
    fixed: int  # blocks of a sequence's states, beside those of its tokens


def cut(pool: Pool, block_size: int, states_a_layer: int = 1) -> Cut:
    """vLLM's rule for hybrid models (platforms/interface.py, v1/core/kv_cache_utils.py).

    A block of attention is grown, by multiples of `block_size`, until a layer's page holds the
    state of a layer; states are padded to that page. Layers are cut into groups of one size, each
    group with a block table of its own: a state's takes `states_a_layer` blocks, attention's one
    for each `block_size` tokens. An encoder's keys and values take whole pages, and grow nothing.

    Raises InputError for layers that can't share pages, and for attention that would take several
    tables, because layers with states are few beside it.
    """
    attention = [
        (group, stored.key + stored.value)
        for group, stored in zip(pool.groups, pool.stored, strict=True)
        if stored.key + stored.value
    ]
    states = [(group, group.layer_bytes(pool.tp)) for group in pool.states]
    if not attention:
        page = max(size for _, size in states)
        layers = sum(group.layers for group, _ in states)
        # the state is all that a sequence has: its one block lasts for any length
        return Cut(pool.max_len + 1, layers * page, states_a_layer - 1)
    if len(attention) > 1:
        kinds = " and ".join(group.kind for group, _ in attention)
        raise InputError(
            f"paging: {kinds} layers beside states of a sequence; expected attention of one kind"
        )
    (group, token), *_ = attention
    step = max(block_size, LATENT_BLOCK) if group.latent else block_size
    largest = max((size for one, size in states if one.kind != "cross"), default=0)
    size = max(block_size, step * -(-largest // (step * token)))
    layers = layers_a_page([group.layers, *(one.layers for one, _ in states)])
    if layers < group.layers:
        few = next(one for one, _ in states if one.layers == layers)
        raise InputError(
            f"paging: {group.layers} {group.kind} layers beside {layers} {few.kind} layers take "
            "several block tables; expected fewer than 1.5 times as many"
        )
    fixed = sum(
        -(-one.layers // layers)
        * (-(-bytes_ // (size * token)) if one.kind == "cross" else states_a_layer)
        for one, bytes_ in states
    )
    return Cut(size, layers * size * token, fixed)


class StatePages(Pages):
    """Blocks of tokens on demand, and a sequence's states from its first token on."""

    holds_states = True

    def __init__(self, pool: Pool, block_size: int, watermark: float) -> None:
        self.cut = one = cut(pool, block_size)
        self.block_size, self.block_bytes = one.block_size, one.block_bytes
        self.landmark_bytes = 0
        self.blocks = pool.capacity_bytes // one.block_bytes
        if self.blocks <= one.fixed:
            raise InputError(
                f"paging: the first token takes {one.fixed + 1} blocks of {one.block_bytes} bytes, "
                f"states included, but the KV budget is {pool.capacity_bytes}"
            )
        self.holders = 0  # sequences that have a state
        self.state_bytes = pool.state_bytes
        kept_back = int((self.blocks + pool.null_blocks) * watermark)
        Periodic.__init__(self, pool, one.block_size, self.blocks, kept_back)

    def longest(self) -> int:
        return (self.blocks - self.cut.fixed) * self.block_size

    def can_admit(self, seq: Sequence) -> bool:
        keep = self.kept_back if self.free < self.units else 0
        return self.units_for(seq.target) + self.cut.fixed <= self.free - keep

    def can_extend(self, seq: Sequence, tokens: int) -> bool:
        state = 0 if seq.held else self.cut.fixed
        return self.units_for(seq.stored + tokens) - seq.held + state <= self.free

    def extend(self, seq: Sequence, tokens: int) -> None:
        if not seq.held and tokens:
            self.free -= self.cut.fixed
            self.holders += 1
        super().extend(seq, tokens)

    def release(self, seq: Sequence) -> None:
        if seq.held or seq.joined_tick >= 0:
            self.free += self.cut.fixed
            self.holders -= 1
        super().release(seq)

    def reads(self) -> tuple[int, int]:
        """Keys and values of the whole context, and each state read and written once."""
        first, growth = super().reads()
        return first + 2 * self.state_bytes * self.decoding, growth

    def transfer_bytes(self, tokens: int) -> int:
        return super().transfer_bytes(tokens) + self.cut.fixed * self.block_bytes

    def tally(self) -> tuple[int, ...]:
        """Live tokens, sequences with a state, and free blocks."""
        return self.live_tokens(), self.holders, self.free

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        tokens, holders, free = tally
        live, _, internal, *rest = super().uses((tokens, free, 0 * free))
        states = holders * self.state_bytes
        return live + states, 0, internal - states, *rest

    def check_integrity(self) -> None:
        super().check_integrity()
        assert self.decoding <= self.holders
