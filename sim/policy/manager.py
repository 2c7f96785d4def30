"""The contract of a cache policy: a frozen spec that makes a manager of integers.

Managers answer in pairs, a question and a command (`can_admit`/`admit`, `can_extend`/`extend`,
`growable`/`grow`). A command whose question was answered yes succeeds; a question changes nothing.
Decisions never depend on tensor values or on the clock.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sim.model.layers import LayerGroup
from sim.model.states import StateGroup
from sim.sequence import Sequence
from workloads.errors import InputError


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes of one token in one layer on this device, side data included."""

    key: int
    value: int  # 0 where values are read from the key's latent part
    side: int = 0  # of the two together: scales, zero points, padding


def group_bytes(tokens: int, group: LayerGroup, stored: Stored) -> tuple[int, int]:
    """Bytes of so many tokens in the group's layers: payload, and side data."""
    side = group.layers * stored.side
    return tokens * (group.layers * (stored.key + stored.value) - side), tokens * side


@dataclass(frozen=True, slots=True)
class Pool:
    """The memory a policy manages on one device, from the same ledger that `size` prints.

    `groups` and `stored`, one for each of them, say where `token_bytes` comes from. A pool
    without them serves every policy that doesn't look into a token.
    """

    capacity_bytes: int
    token_bytes: int  # KV of one token over all layers on this device, side data included
    max_len: int  # tokens of the longest context the engine accepts
    side_bytes: int = 0  # of a token's bytes: scales, zero points, padding
    groups: tuple[LayerGroup, ...] = ()
    stored: tuple[Stored, ...] = ()
    tp: int = 1
    states: tuple[StateGroup, ...] = ()  # layers that keep a state of a sequence
    null_blocks: int = 0  # that the engine counts in its pool beside these, as padding
    in_flight_tokens: int = 0
    """Most tokens planned and not yet computed: of a step, or of two where it is planned ahead.

    Layers with windows keep what these read. 0: not known, and windows move with each token.
    """

    @property
    def state_bytes(self) -> int:
        """States of one sequence on this device, whatever its length."""
        return sum(group.sequence_bytes(self.tp) for group in self.states)

    @property
    def payload_bytes(self) -> int:
        """KV of one token without side data."""
        return self.token_bytes - self.side_bytes

    def storing(self, stored: tuple[Stored, ...]) -> "Pool":
        """The same memory, each group's tokens stored in another way."""
        pairs = list(zip(self.groups, stored, strict=True))
        token = sum(group.layers * (one.key + one.value) for group, one in pairs)
        side = sum(group.layers * one.side for group, one in pairs)
        return replace(self, token_bytes=token, side_bytes=side, stored=stored)


class Memory(NamedTuple):
    """Where the pool's bytes are; they sum to its capacity.

    live: KV of tokens written. reserved: held for tokens still to come. internal: held and never
    to be used. external: free but in holes too small to serve, or lost to an allocator's rounding.
    metadata: scales, zero points, landmarks and other side data.
    """

    live: int
    reserved: int
    internal: int
    external: int
    metadata: int
    free: int


class Manager(ABC):
    """A policy's state. Prefilling sequences are extended one by one; decoding ones grow together.

    `tick` counts the decode steps of the whole batch. A sequence that joined at tick t with
    `stored` tokens holds `stored + tick - t` tokens now.
    """

    reserves = True
    """Admission takes room for the whole of `target`, so never less is asked of `can_admit`.

    A manager that takes room only as sequences are extended may say False: where an engine begins
    what fits as far as its first chunk, it is then asked with `target` cut to that.
    """
    holds_states = False  # whether it has room for `pool.states`
    watched = False  # whether runs check what it says: strangers had a hand in it

    def __init__(self, pool: Pool) -> None:
        if pool.states and not self.holds_states:
            raise InputError(
                "the model keeps a state of each sequence beside its tokens' KV, which paging "
                "alone holds; expected paging without prefix sharing or a retention"
            )
        self.pool = pool
        self.tick = 0
        self.decoding = 0  # sequences that joined
        self.context = 0  # tokens of KV they logically have
        self.prefilled = 0  # tokens of KV of sequences that don't decode (yet, or any more)

    # -- questions ---------------------------------------------------------------------------

    @abstractmethod
    def longest(self) -> int:
        """Tokens of KV that one sequence could hold in an empty pool."""

    @abstractmethod
    def can_admit(self, seq: Sequence) -> bool:
        """Whether `seq.target` tokens fit now, beside what others hold."""

    def found(self, seq: Sequence) -> int:
        """Tokens that admission would find in the cache."""
        return 0

    @property
    def addresses(self) -> int:
        """Units of its address space; 0 where one free piece serves as well as any other, so that
        addresses say nothing."""
        return 0

    def holes(self) -> list[tuple[int, int]]:
        """Free (address, units) in order of address, of a manager that has `addresses`."""
        return []

    def can_begin(self, seq: Sequence, tokens: int) -> bool:
        """Whether the first chunk of at most `tokens` fits, where `can_admit` said yes."""
        return True

    def can_extend(self, seq: Sequence, tokens: int) -> bool:
        """Whether the prefilling sequence's next tokens fit now."""
        return True

    def growable(self, limit: int) -> int:
        """How many steps, up to `limit`, every decoding sequence can grow by a token each.

        A manager may answer less where its reads or its memory stop being linear in the steps,
        but never 0 unless a single step lacks memory.
        """
        return limit

    def repeatable(self, limit: int) -> int:
        """How many further steps, up to `limit`, go on as the one just taken, and may be 0.

        Their reads grow by what `reads` says now: no one-off such as a copy is among them.
        """
        return self.growable(limit) if limit else 0

    @abstractmethod
    def memory(self) -> Memory:
        """Bytes by use; they sum to the capacity."""

    def live_tokens(self) -> int:
        """Tokens whose KV is kept now, over all sequences."""
        return self.context + self.prefilled

    def live_by_group(self) -> tuple[tuple[int, int], ...]:
        """Bytes of live KV of each of the pool's layer groups: payload, and side data."""
        kept = self.live_tokens()
        groups = zip(self.pool.groups, self.pool.stored, strict=True)
        return tuple(group_bytes(kept, group, stored) for group, stored in groups)

    def pieces(self) -> tuple[int, int] | None:
        """Pieces of equal size that the pool is cut into, and bytes of one; None: it isn't."""
        return None

    def transfer_bytes(self, tokens: int) -> int:
        """Bytes to move where the KV of a sequence's first `tokens` leaves the device."""
        return tokens * self.pool.token_bytes

    def missing_bytes(self, kept: int, found: int) -> int:
        """Of those bytes of the first `kept` tokens, what lacks where `found` of them are there."""
        return self.transfer_bytes(kept) - self.transfer_bytes(found)

    def cached_bytes(self) -> int:
        """Of the free bytes, those whose contents a later request might still find and use."""
        return 0

    def tally(self) -> tuple[int, ...]:
        """Integers from which `uses` finds memory: kept for every event, so the fewer the better.

        Memory and cached bytes themselves here; `Tallied` managers know how to say it in fewer.
        """
        return (*self.memory(), self.cached_bytes())

    def uses(self, tally: tuple[Any, ...]) -> tuple[Any, ...]:
        """`memory` and `cached_bytes` as they were at that tally, or at a whole column of each."""
        return tally

    def reads(self) -> tuple[int, int]:
        """KV bytes the decoding batch's attention touches in this step, and the growth a step."""
        return self.context * self.pool.token_bytes, self.decoding * self.pool.token_bytes

    # -- commands ----------------------------------------------------------------------------

    def admit(self, seq: Sequence) -> None:
        """Take what admission reserves. May set `seq.stored` to tokens found in the cache."""

    def extend(self, seq: Sequence, tokens: int) -> None:
        """Take room for the next `tokens` of a prefilling sequence."""
        seq.stored += tokens
        self.prefilled += tokens

    def strain(self, seq: Sequence | None = None) -> None:
        """Memory lacks for the next step of `seq`, or of the decoding batch, and one must go.

        Who takes memory one sequence at a time has done so up to the one that found none.
        """

    def join(self, seq: Sequence) -> None:
        """The sequence's context is complete: from now on it grows with the batch."""
        seq.joined_tick = self.tick
        self.prefilled -= seq.stored
        self.context += seq.stored
        self.decoding += 1

    def grow(self, steps: int) -> None:
        """Every decoding sequence writes `steps` more tokens."""
        self.tick += steps
        self.context += steps * self.decoding

    def rest(self, seq: Sequence) -> None:
        """The sequence decodes no more but keeps what it holds. Settles its `stored`."""
        seq.stored += self.tick - seq.joined_tick
        seq.joined_tick = -1
        self.decoding -= 1
        self.context -= seq.stored
        self.prefilled += seq.stored

    def release(self, seq: Sequence) -> None:
        """Give back all that the sequence holds, and settle its final `stored`."""
        if seq.joined_tick >= 0:
            self.rest(seq)
        self.prefilled -= seq.stored

    # -- laws --------------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Raise AssertionError where the state contradicts itself. Costs more than a step."""
        memory = self.memory()
        assert min(memory) >= 0, f"memory() has a part below 0: {memory}"
        assert sum(memory) == self.pool.capacity_bytes, (
            f"memory() sums to {sum(memory)} B, the pool to {self.pool.capacity_bytes} B: {memory}"
        )
        counts = (self.decoding, self.context, self.prefilled)
        assert min(counts) >= 0, f"decoding, context, prefilled are {counts}: one is below 0"
