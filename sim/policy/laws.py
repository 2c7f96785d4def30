"""The laws that every policy's manager obeys, as a state machine over generated histories.

`check_policy` is the way in, for policies of one's own too. It needs hypothesis, which draws each
history as one string of bytes: its own state machines draw every step by itself, and that costs
ten times what the laws do.
"""

import pickle
import traceback
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import cast

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from sim.model.layers import LayerGroup
from sim.policy.answers import (
    Untrue,
    check_memory,
    checked,
    expect_count,
    expect_yes_or_no,
    fresh,
)
from sim.policy.manager import Manager, Pool, Stored
from sim.policy.registry import label_of, parse_policy
from sim.policy.spec import Policy
from sim.sequence import Sequence
from workloads.errors import InputError

STEPS = 8
WORD = 4  # bytes a step, and before the first one: which event comes, and its numbers from 3 bytes
HISTORY = (1 + STEPS) * WORD
AT_ONCE = 16  # histories a drawing at most, which takes as long as the laws of several
DRAWINGS = 20  # at least, where there are so many histories: the first draws nothing but zeros
FULL = (LayerGroup(2, "full", 1, 32, 32),)
WIDE = (LayerGroup(2, "full", 40, 80, 80),)  # 6,400 B: a page of 64 KiB ends within a token
MIXED = (LayerGroup(1, "full", 1, 32, 32), LayerGroup(2, "window", 1, 32, 32, window=5))
KINDS = (FULL, MIXED, WIDE)


class LawBroken(AssertionError):
    """A policy, the law that it breaks, and the shortest history found that does, in one line."""


def check_policy(
    policy: Policy | str,
    histories: int = 300,
    kinds: tuple[tuple[LayerGroup, ...], ...] = KINDS,
) -> None:
    """Serve so many generated histories with the policy, and check every law after every event.

    Once for each of the `kinds` of model whose pools the policy accepts. The same histories each
    time. Raises LawBroken with the shortest history found that breaks a law, InputError where
    the policy accepts none of the pools, whose smallest have room for 41 tokens.
    """
    if histories < 1:
        raise InputError(f"check_policy: histories={histories}, expected at least 1")
    spec = parse_policy(policy) if isinstance(policy, str) else policy
    refusals = {groups: _refusal(spec, groups) for groups in kinds}
    if all(refusals.values()):
        low, high = Contract.tokens
        raise InputError(
            f"check_policy: {label_of(spec)} refuses its pools, which have room for {low + 1} to "
            f"{high} tokens so that they are often full: {next(filter(None, refusals.values()))}"
        )
    for groups in [groups for groups, refusal in refusals.items() if refusal is None]:
        check(type("Histories", (Contract,), {"spec": spec, "groups": groups}), histories)


def check(contract: "type[Contract]", histories: int) -> None:
    """So many histories of requests under the contract. Raises LawBroken."""
    at_once = max(1, min(AT_ONCE, histories // DRAWINGS))
    if not (first := _broken(contract, histories, at_once, Phase.generate)):
        return
    shrunk = (Phase.generate, Phase.shrink)  # what is drawn one by one shrinks furthest
    found = _broken(contract, histories, 1, *shrunk) or _broken(
        contract, histories, at_once, *shrunk
    )
    message, error = found or first
    raise LawBroken(message) from (None if isinstance(error, AssertionError) else error)


def _broken(
    contract: "type[Contract]", histories: int, at_once: int, *phases: Phase
) -> tuple[str, BaseException] | None:
    """What breaks a law in so many histories, of which so many are drawn at once."""
    last: list[Contract] = []  # hypothesis ends with the shortest one

    @settings(
        max_examples=1 + -(-histories // at_once),  # one without events, and what is asked for
        deadline=None,
        derandomize=True,
        database=None,
        phases=phases,
        report_multiple_bugs=False,
    )
    @given(st.binary(min_size=at_once * HISTORY, max_size=at_once * HISTORY))
    def serve(drawn: bytes) -> None:
        for start in range(0, len(drawn), HISTORY):
            last[:] = [contract()]
            last[0].serve(drawn[start : start + HISTORY])

    try:
        serve()
    except HypothesisException:
        raise
    except (Exception, SystemExit) as error:  # whatever a stranger's class raises
        history = "; ".join(last[0].story)
        return (
            f"{label_of(contract.spec)}: {_law(error)}; the shortest history: {history}",
            error,
        )
    return None


def _law(error: BaseException) -> str:
    """What was broken in words; where, if a policy raised it itself."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split()) or f"{frame.line}"
    if not isinstance(error, AssertionError | Untrue):
        text = f"{type(error).__name__}: {text}"
    ours = Path(frame.filename).parent == Path(__file__).parent
    return text if ours else f"{text} ({Path(frame.filename).name}, line {frame.lineno})"


def _refusal(spec: Policy, groups: tuple[LayerGroup, ...]) -> InputError | None:
    """Why the policy can't serve the smallest pool of that kind."""
    low, _ = Contract.tokens
    try:
        spec.manager(pool(low + 1, low // 4 + 1, groups))
    except InputError as error:
        return error
    except (Exception, SystemExit):
        return None  # a history tells what it is
    return None


def pool(tokens: int, max_len: int, groups: tuple[LayerGroup, ...] = FULL) -> Pool:
    """Room for so many 16-bit tokens and a bit."""
    halves = [(2 * group.kv_heads, group) for group in groups]
    stored = tuple(Stored(n * group.head_dim, n * group.v_head_dim) for n, group in halves)
    bare = Pool(0, 0, max_len, groups=groups).storing(stored)
    return Pool(tokens * bare.token_bytes + 7, bare.token_bytes, max_len, 0, groups, stored)


def cut(word: int, *sizes: int) -> list[int]:
    """Numbers from 1 to each size."""
    numbers = []
    for size in sizes:
        word, rest = divmod(word, size)
        numbers.append(rest + 1)
    return numbers


def answers(manager: Manager) -> tuple[object, ...]:
    """All that a manager says of itself."""
    return manager.memory(), manager.reads(), manager.growable(16)


def copy_of(manager: Manager) -> Manager:
    """Another one in the same state, of the same pool.

    Pickled where it can be, the faster way for many parts, and without the pool: it never changes,
    and its parts are slow to pickle.
    """
    pool = manager.pool
    try:
        manager.pool = cast(Pool, None)
        copy = cast(Manager, pickle.loads(pickle.dumps(manager, pickle.HIGHEST_PROTOCOL)))
    except Exception:  # of a class that isn't found by its name, say
        copy = deepcopy(manager)
    finally:
        manager.pool = pool
    copy.pool = pool
    return copy


def grows(manager: Manager) -> bool:
    """Take a step: whether the state still makes sense."""
    try:
        manager.grow(1)
        manager.check_integrity()
    except (AssertionError, KeyError, StopIteration):
        return False
    return True


class Contract:
    """Requests come, are prefilled in chunks, decode together, rest, leave or are preempted."""

    spec: Policy
    tokens = (40, 160)
    groups: tuple[LayerGroup, ...] = FULL

    def serve(self, history: bytes) -> None:
        """One event after the other, every law after each of them."""
        words = [history[i : i + WORD] for i in range(0, len(history), WORD)]
        self.begin(int.from_bytes(words[0][1:]))
        self.conserves_bytes()
        for which, *numbers in words[1:]:
            if which:  # 0: none, so that shorter histories are found
                events = self.events()
                event, word = events[which % len(events)], int.from_bytes(numbers)
                event(word)
                self.conserves_bytes()
        self.end()

    def events(self) -> list[Callable[[int], None]]:
        """What can come now; twice what fills the pool."""
        events: list[Callable[[int], None]] = [self.admit, self.admit]
        if self.prefilling:
            events.append(self.prefill)
        if self.decoding:
            events += [self.grow, self.grow]
        if self.decoding or self.resting:
            events.append(self.leave)
        return events

    def begin(self, word: int) -> None:
        low, high = self.tokens
        longest, more = cut(word, low - low // 4, high - low)
        self.max_len = low // 4 + longest
        self.story = [f"a pool of {low + more} tokens for requests of up to {self.max_len}"]
        self.pool = pool(low + more, self.max_len, self.groups)
        self.manager = fresh(self.spec, self.pool)
        check_memory(self.manager, self.manager.memory())
        self.prefilling: list[Sequence] = []
        self.decoding: list[Sequence] = []
        self.resting: list[Sequence] = []
        self.count = 0
        assert self.manager.longest() >= 1, "longest() is below 1, so nothing can be served"

    def admit(self, word: int) -> None:
        """Admitted means that the whole context can be allocated, if need be chunk by chunk."""
        prompt, output, first = cut(word, 30, 30, 40)
        longest = min(self.max_len, self.manager.longest() + 1)
        if prompt >= longest:
            return
        seq = Sequence(self.count, 0, prompt, min(output, longest - prompt))
        self.count += 1
        self.story.append(f"request {seq.index} comes, prompt {prompt}, output {seq.output}")
        self._admit(seq, first)

    def _admit(self, seq: Sequence, first: int) -> None:
        manager = self.manager
        before = answers(manager)
        expect_yes_or_no("can_admit()", taken := manager.can_admit(seq))
        fits = taken and manager.can_begin(seq, first)
        whole = manager.can_begin(seq, seq.target)  # in one chunk, which windows don't shorten
        assert answers(manager) == before, "a question changed something"
        if not fits:
            assert manager.decoding or self.prefilling or self.resting, (
                f"request {seq.index} isn't admitted, though nobody else holds memory"
            )
            return
        manager.admit(seq)
        left = seq.target - seq.stored
        assert manager.can_extend(seq, left if whole else min(first, left)), (
            f"request {seq.index} is admitted, but its context can't be allocated"
        )
        self.prefilling.append(seq)
        self._extend(seq, first)

    def _extend(self, seq: Sequence, tokens: int) -> None:
        manager, tokens = self.manager, min(tokens, seq.target - seq.stored)
        before, stored = answers(manager), seq.stored
        fits = manager.can_extend(seq, tokens)
        assert (answers(manager), seq.stored) == (before, stored), "a question changed something"
        if not fits:
            self._preempt(seq)
            return
        self.story.append(f"{tokens} tokens of request {seq.index} are prefilled")
        manager.extend(seq, tokens)
        assert seq.stored == stored + tokens, "extend() stored another number of tokens"
        if seq.stored == seq.target:
            self.prefilling.remove(seq)
            seq.generated += 1
            manager.join(seq)
            self.decoding.append(seq)
            if seq.generated == seq.output:
                self._finish(seq)

    def prefill(self, word: int) -> None:
        self._extend(self.prefilling[0], *cut(word, 20))

    def grow(self, word: int) -> None:
        """As many steps as were promised can be taken, at once or one by one, with equal ends."""
        limit, taken = cut(word, 40, 10)
        manager = self.manager
        limit = min(limit, *(seq.output - self._generated(seq) for seq in self.decoding))
        before = answers(manager)
        steps = manager.growable(limit)
        assert answers(manager) == before, "a question changed something"
        expect_count(f"growable({limit})", steps, most=limit)
        if not steps:
            assert not grows(copy_of(manager)), "growth is refused, though a step has its memory"
            self._preempt((self.prefilling or self.decoding)[-1])
            return
        taken = min(taken, steps)
        self.story.append(f"{taken} steps of decoding")
        single = copy_of(manager)
        rows = [manager.reads()]
        repeated: list[int] = []  # how often each step was said to repeat
        for _ in range(taken):
            assert single.growable(1) == 1, "promised steps aren't there one by one"
            single.grow(1)
            single.check_integrity()
            rows.append(single.reads())
            repeated.append(single.repeatable(taken - len(rows) + 1))
        manager.grow(taken)
        assert answers(manager) == answers(single), "one by one ends elsewhere"
        assert 0 <= repeated[0] <= taken - 1, f"repeatable({taken - 1}) is {repeated[0]}"
        first, growth = rows[1]  # what is repeated reads more by the same amount each time
        for n in range(1, repeated[0] + 1):
            assert rows[1 + n][0] == first + n * growth, "a repeated step reads something else"
        for seq in [s for s in self.decoding if self._generated(s) == s.output]:
            self._finish(seq)

    def _generated(self, seq: Sequence) -> int:
        return seq.generated + self.manager.tick - seq.joined_tick

    def _finish(self, seq: Sequence) -> None:
        self.decoding.remove(seq)
        rests = seq.index % 3 == 0
        self.story.append(f"request {seq.index} {'rests' if rests else 'leaves'}")
        if rests:
            self.manager.rest(seq)
            self.resting.append(seq)
        else:
            self.manager.release(seq)
        assert seq.stored == seq.final, "the last sampled token's KV is never written"

    def _preempt(self, seq: Sequence) -> None:
        self.story.append(f"request {seq.index} is preempted")
        if seq.joined_tick >= 0:
            seq.generated = self._generated(seq)
            self.decoding.remove(seq)
        else:
            self.prefilling.remove(seq)
        self.manager.release(seq)
        self.manager.check_integrity()
        seq.stored, seq.target = 0, seq.prompt + seq.generated
        self._admit(seq, 1)

    def leave(self, word: int) -> None:
        """One is preempted, or has rested long enough."""
        if self.resting:
            self.story.append(f"request {self.resting[-1].index} leaves")
            self.manager.release(self.resting.pop())
        else:
            self._preempt(self.decoding[word % len(self.decoding)])

    def conserves_bytes(self) -> None:
        """Every byte has one use, and live bytes are those of tokens that are there."""
        manager = self.manager
        manager.check_integrity()
        memory, cached, tally = checked(manager)
        stored = sum(s.stored for s in self.prefilling + self.resting)
        grown = sum(s.stored + manager.tick - s.joined_tick for s in self.decoding)
        counted = (manager.prefilled, manager.context, manager.decoding)
        assert counted == (stored, grown, len(self.decoding)), (
            f"prefilled, context, decoding are {counted}, not {stored, grown, len(self.decoding)}"
        )
        assert manager.live_tokens() <= stored + grown, "live_tokens() is more than there are"
        holding = [s for s in self.prefilling + self.resting + self.decoding if s.held]
        states = len(holding) * manager.pool.state_bytes
        assert memory.live - states <= (stored + grown) * manager.pool.payload_bytes, (
            f"memory().live is {memory.live} B, more than {stored + grown} tokens have"
        )
        if groups := manager.live_by_group():
            payload, side = (sum(sizes) for sizes in zip(*groups, strict=True))
            assert payload == memory.live - states, "live_by_group() sums to something else"
            assert side <= memory.metadata, "live_by_group() has more side data than there is"
        assert manager.uses(tally) == (*memory, cached), (
            "uses(tally()) isn't memory() and cached_bytes()"
        )

    def _tallies_by_column(self) -> None:
        """Whole columns of tallies turn into what each of them does."""
        tally = self.manager.tally()
        columns = tuple(np.array([0, count, count]) for count in tally)
        for one, column in zip(self.manager.uses(tally), self.manager.uses(columns), strict=True):
            # What is the same for all may be a single number.
            many = np.broadcast_to(column, 3).tolist() if np.ndim(column) else 3 * [column]
            assert many[1:] == [one, one], "uses() of columns of tallies isn't uses() of each"

    def end(self) -> None:
        """When all have left, everything is free again."""
        self._tallies_by_column()
        for seq in self.prefilling + self.decoding + self.resting:
            self.story.append(f"request {seq.index} leaves")
            self.manager.release(seq)
        self.manager.check_integrity()
        memory = self.manager.memory()
        assert memory.free + memory.external == self.pool.capacity_bytes, (
            f"all have left, but not all memory is free: {memory}"
        )
