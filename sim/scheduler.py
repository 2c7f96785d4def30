"""Who runs in the next step: admission, chunked prefill, growth, preemption.

`Scheduler` follows vLLM V1 (v1/core/sched/scheduler.py): one budget of tokens a step, spent first
on running requests in order of admission and then on waiting ones, first come first served; a
prompt that does not fit whole is not begun; where growth lacks memory the request admitted last
gives up its memory, goes to the head of the queue and is computed again.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

from sim.plan import Chunk, StepPlan
from sim.policy.base import Manager
from sim.rules import Rules
from sim.sequence import Sequence
from workloads.errors import InputError

Batching = Literal["continuous", "static"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step. The names are vLLM's.

    `static` batching is what came before continuous batching (Yu et al., Orca, OSDI'22): a batch
    is chosen when the engine is empty, prefilled whole, and answered when its last member ends.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 4096
    batching: Batching = "continuous"
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}, expected at least 1")
        if self.max_model_len < 2:
            raise InputError(f"max_model_len={self.max_model_len}, expected at least 2")
        if self.batching == "continuous" and self.max_num_batched_tokens < self.max_num_seqs:
            raise InputError(
                f"max_num_batched_tokens={self.max_num_batched_tokens} is below "
                f"max_num_seqs={self.max_num_seqs}: a full batch could not decode"
            )
        if self.batching == "static" and self.rules.async_scheduling:
            raise InputError("batching=static: is not planned ahead, expected continuous")


class Scheduler:
    """The queue, the running batch and the policy's manager, advanced one plan at a time."""

    def __init__(self, manager: Manager, limits: Limits) -> None:
        self.manager = manager
        self.limits = limits
        self.longest_total = min(limits.max_model_len, manager.longest() + 1)
        """Prompt + output tokens of the longest request that can ever be served."""
        self.waiting: deque[Sequence] = deque()
        self.running: dict[int, Sequence] = {}  # in order of admission
        self.prefilling: list[Sequence] = []
        self.held: list[Sequence] = []  # static batching: finished, memory still taken
        self.steps = 0
        self._admissions = 0
        self._finishing: list[tuple[int, int, Sequence]] = []  # (tick, admission, sequence)
        self._finished: list[int] = []
        self._longest: list[tuple[int, int, Sequence]] = []  # (-(stored - joined tick), as above)
        self.leaving: list[Sequence] = []  # of the held, those that left early
        self.departing: list[Sequence] = []  # planned ahead: their last token is being computed

    def servable(self, prompt: int, output: int) -> int:
        """Output tokens that such a request will get; 0 if it can never be served."""
        return max(0, min(output, self.longest_total - prompt))

    def takes_arrivals(self) -> bool:
        """Whether a request that arrived now might be admitted in the next step."""
        if self.limits.batching == "static":
            return not self.running
        return not self.waiting and len(self.running) < self.limits.max_num_seqs

    def inside(self) -> list[Sequence]:
        """Every request that has arrived, was not refused, and has not been reported finished."""
        gone = [seq for seq in self.departing if seq.index not in self.running]
        return [*self.waiting, *self.running.values(), *self.held, *self.leaving, *gone]

    def schedule(self) -> StepPlan | None:
        """Decide the next step and take its memory; None where nothing waits or runs."""
        manager = self.manager
        preempted = self._make_room()
        if manager.decoding:
            manager.grow(1)
        budget = self.limits.max_num_batched_tokens - manager.decoding
        chunks: list[Chunk] = []
        for seq in tuple(self.prefilling):
            if manager.can_extend(seq, min(seq.target - seq.stored, budget)):
                budget -= self._prefill(seq, budget, chunks)
            else:  # it was admitted last, so it is the one to go
                preempted.append(self._preempt())
        admitted: tuple[int, ...] = ()
        may_admit = self.limits.rules.admit_after_preemption or not (preempted and self.running)
        if self.waiting and may_admit:
            admitted = self._admit(budget, chunks)
        if not (manager.decoding or chunks):
            return None
        max_steps = 1
        # After a preemption admission is asked again next step; who left early is reported then.
        if not (chunks or preempted or self.leaving):
            max_steps += manager.growable(self._next_finish() - manager.tick)
        read_bytes, growth = manager.reads()
        plan = StepPlan(
            self.steps,
            max_steps,
            manager.decoding,
            manager.context,
            read_bytes,
            growth,
            sum([chunk.tokens for chunk in chunks]) if chunks else 0,
            tuple(chunks),
            admitted,
            tuple(preempted),
            tuple(self._finished),
            self._longest_context(),
        )
        if self._finished:
            self._finished = []
        return plan

    def advance(self, steps: int) -> None:
        """The plan's decode part was run `steps` times: take memory for those after the first."""
        self.steps += steps
        if steps > 1:
            self.manager.grow(steps - 1)

    def complete(self, plan: StepPlan) -> tuple[list[Sequence], list[Sequence]]:
        """The plan has run: who got a first token, and who finished and left."""
        first: list[Sequence] = []
        finished, self.leaving = self.leaving, []
        for chunk in plan.chunks:
            if chunk.last:
                seq = self.running[chunk.request]
                self.prefilling.remove(seq)
                if not seq.generated:
                    first.append(seq)
                self._start_decoding(seq, finished)
        finishing, tick = self._finishing, self.manager.tick
        while finishing and finishing[0][0] <= tick:
            _, admission, seq = heappop(finishing)
            if seq.admission == admission and seq.joined_tick >= 0:
                seq.generated = seq.output
                self._finish(seq, finished)
        if self.held and not self.running:
            for seq in self.held:
                self._leave(seq, finished)
            self.held = []
        return first, finished

    def depart(self, finished: list[Sequence]) -> None:
        """The step with their last token has run: planned ahead, they leave only now."""
        for seq in finished:
            self.departing.remove(seq)
            if self.running.pop(seq.index, None):  # else preempted with the token under way
                self.manager.release(seq)
                self._finished.append(seq.index)

    # -- steps of the above ------------------------------------------------------------------

    def _make_room(self) -> list[int]:
        """Preempt from the back until the decoding batch can grow by a token each."""
        preempted: list[int] = []
        while self.manager.decoding and not self.manager.growable(1):
            if self.held:  # whoever is done already goes before anyone is interrupted
                self._leave(self.held.pop(), self.leaving)
            else:
                preempted.append(self._preempt())
        return preempted

    def _preempt(self) -> int:
        _, seq = self.running.popitem()
        if seq in self.departing:
            self.manager.release(seq)
            self._finished.append(seq.index)
            return seq.index
        if seq.joined_tick >= 0:
            seq.generated += self.manager.tick - seq.joined_tick
        else:
            self.prefilling.remove(seq)
        self.manager.release(seq)
        seq.preemptions += 1
        seq.lost = seq.stored
        seq.recomputed += seq.lost
        seq.stored = 0
        seq.target = seq.prompt + seq.generated
        if self.limits.rules.preempted_first:
            self.waiting.appendleft(seq)
        else:
            self.waiting.append(seq)
        return seq.index

    def _admit(self, budget: int, chunks: list[Chunk]) -> tuple[int, ...]:
        static = self.limits.batching == "static"
        if static:
            if self.running:
                return ()
            budget = sum(seq.target for seq in self.waiting)
        admitted: list[int] = []
        waiting, running, manager = self.waiting, self.running, self.manager
        while waiting and budget > 0 and len(running) < self.limits.max_num_seqs:
            seq = waiting[0]
            if not self._fits(seq, budget):
                break
            waiting.popleft()
            manager.admit(seq)
            if seq.preemptions:
                seq.recomputed -= min(seq.lost, seq.stored)  # it found its own again
            else:
                seq.cached = seq.stored
            self._admissions += 1
            seq.admission = self._admissions
            running[seq.index] = seq
            self.prefilling.append(seq)
            admitted.append(seq.index)
            budget -= self._prefill(seq, budget, chunks)  # the whole fits, so its beginning does
        return tuple(admitted)

    def _fits(self, seq: Sequence, budget: int) -> bool:
        if self.limits.rules.reserve_whole_prompt:
            return self.manager.can_admit(seq)
        whole = seq.target
        seq.target = min(whole, self.manager.found(seq) + budget)  # as far as its first chunk
        fits = self.manager.can_admit(seq)
        seq.target = whole
        return fits

    def _prefill(self, seq: Sequence, budget: int, chunks: list[Chunk]) -> int:
        """Take memory for the next chunk of a context, and say how long it is."""
        start = seq.stored
        tokens = min(seq.target - start, budget)
        if tokens:
            self.manager.extend(seq, tokens)
            chunks.append(Chunk(seq.index, start, tokens, start + tokens == seq.target))
        return tokens

    def _start_decoding(self, seq: Sequence, finished: list[Sequence]) -> None:
        """The step that completed the context also sampled a token."""
        seq.generated += 1
        if seq.generated == seq.output:
            self._finish(seq, finished)
            return
        manager = self.manager
        manager.join(seq)
        seq.finish_tick = manager.tick + seq.output - seq.generated
        heappush(self._finishing, (seq.finish_tick, seq.admission, seq))
        heappush(self._longest, (seq.joined_tick - seq.stored, seq.admission, seq))

    def _next_finish(self) -> int:
        """The tick at which the next decoding sequence has all its tokens."""
        finishing = self._finishing
        while True:
            tick, admission, seq = finishing[0]
            if seq.admission == admission and seq.joined_tick >= 0:
                return tick
            heappop(finishing)  # it was preempted since

    def _longest_context(self) -> int:
        """Tokens of the longest decoding sequence, the one being written included."""
        longest = self._longest
        while longest:
            behind, admission, seq = longest[0]
            if seq.admission == admission and seq.joined_tick >= 0:
                return self.manager.tick - behind
            heappop(longest)  # it finished or was preempted since
        return 0

    def _finish(self, seq: Sequence, finished: list[Sequence]) -> None:
        if self.limits.rules.async_scheduling:
            if seq.joined_tick >= 0:
                self.manager.rest(seq)
            self.departing.append(seq)
            finished.append(seq)
            return
        del self.running[seq.index]
        if self.limits.batching == "static":
            if seq.joined_tick >= 0:
                self.manager.rest(seq)
            self.held.append(seq)
        else:
            self._leave(seq, finished)

    def _leave(self, seq: Sequence, finished: list[Sequence]) -> None:
        self.manager.release(seq)
        self._finished.append(seq.index)
        finished.append(seq)
