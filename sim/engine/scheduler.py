"""Who runs in the next step: admission, chunked prefill, growth, preemption.

`Scheduler` follows vLLM V1 (v1/core/sched/scheduler.py): one budget of tokens a step, spent first
on running requests in order of admission and then on waiting ones, first come first served; a
prompt that does not fit whole is not begun; where growth lacks memory the request admitted last
gives up its memory, goes to the head of the queue and is computed again (or see `Pressure`).
"""

from collections import deque
from heapq import heappop, heappush
from sys import maxsize

from sim.engine.limits import VICTIMS, Limits
from sim.engine.lists import by_admission, contexts, drop_preempted, tokens
from sim.engine.swap import HostSwap
from sim.plan import Chunk, StepPlan, from_fields
from sim.policy.manager import Manager
from sim.sequence import Sequence

make_chunk = from_fields(Chunk)
make_plan = from_fields(StepPlan)


class Scheduler:
    """The queue, the running batch and the policy's manager, advanced one plan at a time."""

    def __init__(self, manager: Manager, limits: Limits, knows_longest: bool = False) -> None:
        """`knows_longest`: plans tell the longest context, for the cost models that ask for it."""
        self.manager = manager
        self._knows_longest = knows_longest
        self.limits = limits
        self._static = limits.batching == "static"
        self._ahead = limits.rules.async_scheduling
        self._preempted_first = limits.rules.preempted_first
        self._admits_after = limits.rules.admit_after_preemption
        self._swaps = limits.pressure.preemption == "swap"
        self._victim_sign = VICTIMS[limits.pressure.victim]
        self._whole_prompt = limits.rules.reserve_whole_prompt or manager.reserves
        self._max_num_seqs = limits.max_num_seqs
        self._max_num_batched_tokens = limits.max_num_batched_tokens
        self._long_prefill = limits.long_prefill_token_threshold or limits.max_num_batched_tokens
        self._longest_chunk = self._long_prefill  # unless nobody would wait for it
        self.longest_total = min(limits.max_model_len, manager.longest() + 1)
        """Prompt + output tokens of the longest request that can ever be served."""
        self.waiting: deque[Sequence] = deque()
        self.running: dict[int, Sequence] = {}  # in order of admission
        self.prefilling: list[Sequence] = []
        self.held: list[Sequence] = []  # static batching: finished, memory still taken
        self.swap = HostSwap(limits.pressure.swap_space_bytes)
        self.steps = 0
        self._admissions = 0
        self._finishing: list[tuple[int, int, Sequence]] = []  # (tick, admission, sequence)
        self._finished: list[int] = []
        self._unreported: list[int] = []  # preempted where no step came of it, for the next plan
        self._longest: list[tuple[int, int, Sequence]] = []  # (joined tick - stored, as above)
        self.leaving: list[Sequence] = []  # of the held, those that left early
        self.departing: list[Sequence] = []  # planned ahead: their last token is being computed

    def servable(self, prompt: int, output: int) -> int:
        """Output tokens that such a request will get; 0 if it can never be served."""
        room = self.longest_total - prompt
        return output if output <= room else max(0, room)

    def takes_arrivals(self) -> bool:
        """Whether a request that arrived now might be admitted in the next step."""
        if self._static:
            return not self.running
        return not self.waiting and len(self.running) < self._max_num_seqs

    def inside(self) -> list[Sequence]:
        """Every request that has arrived, was not refused, and has not been reported finished."""
        gone = [seq for seq in self.departing if seq.index not in self.running]
        return [*self.waiting, *self.running.values(), *self.held, *self.leaving, *gone]

    def schedule(self) -> StepPlan | None:
        """Decide the next step and take its memory; None where nothing waits or runs."""
        manager = self.manager
        preempted: list[int] = []
        chunks: list[Chunk] = []
        admitted: list[int] = []
        prefill_tokens = 0
        turn = 0
        if self._long_prefill < self._max_num_batched_tokens:
            alone = len(self.running) + len(self.waiting) == 1
            self._longest_chunk = self._max_num_batched_tokens if alone else self._long_prefill
            if self.prefilling and manager.decoding:
                turn = self._extend_before_decodes(chunks, preempted)
        if manager.decoding and not manager.growable(1):
            self._make_room(preempted)
            drop_preempted(chunks, self.running)
        decoding = manager.decoding
        if decoding:
            manager.grow(1)
        if self.prefilling or self.waiting:
            prefill_tokens = tokens(chunks)
            budget = self._max_num_batched_tokens - decoding
            if self.prefilling:
                left = budget - prefill_tokens
                prefill_tokens += self._extend(left, chunks, preempted, turn, maxsize)
            if self.waiting and (not (preempted and self.running) or self._admits_after):
                prefill_tokens += self._admit(budget - prefill_tokens, chunks, admitted)
        if not (manager.decoding or chunks):
            self._unreported += preempted
            return None
        max_steps = 1
        # After a preemption admission is asked again next step; who left early is reported then.
        if not (chunks or preempted or self.leaving):
            tick, admission, seq = self._finishing[0]
            if seq.admission != admission or seq.joined_tick < 0:
                tick = self._next_finish()
            max_steps += manager.repeatable(tick - manager.tick)
        return self._plan(max_steps, prefill_tokens, chunks, admitted, preempted)

    def _plan(
        self,
        max_steps: int,
        prefill_tokens: int,
        chunks: list[Chunk],
        admitted: list[int],
        preempted: list[int],
    ) -> StepPlan:
        """What was decided, in one piece."""
        manager = self.manager
        read_bytes, growth = manager.reads()
        finished: tuple[int, ...] = ()
        swap_out = swap_in = 0
        if self._finished:
            finished, self._finished = tuple(self._finished), []
        if self.swap.moving:
            swap_out, swap_in = self.swap.traffic()
        if self._unreported:
            preempted, self._unreported = self._unreported + preempted, []
        step = self.steps
        self.steps = step + 1
        return make_plan(
            (
                step,
                max_steps,
                manager.decoding,
                manager.context,
                read_bytes,
                growth,
                prefill_tokens,
                tuple(chunks) if chunks else (),
                tuple(admitted) if admitted else (),
                tuple(preempted) if preempted else (),
                finished,
                swap_out,
                swap_in,
                self._longest_context() if self._knows_longest else 0,
            )
        )

    def advance(self, steps: int) -> None:
        """The plan's decode part was run `steps` times: take memory for those after the first."""
        if steps > 1:
            self.steps += steps - 1
            self.manager.grow(steps - 1)

    def complete(self, plan: StepPlan) -> tuple[list[Sequence], list[Sequence]]:
        """The plan has run: who got a first token, and who finished and left."""
        first: list[Sequence] = []
        finished: list[Sequence] = []
        if self.leaving:
            finished += self.leaving
            self.leaving.clear()
        complete: list[Sequence] = []
        finishing, tick = self._finishing, self.manager.tick
        while finishing and finishing[0][0] <= tick:
            _, admission, seq = heappop(finishing)
            if seq.admission == admission and seq.joined_tick >= 0:
                seq.generated = seq.output
                complete.append(seq)
        for chunk in plan.chunks:
            if chunk.last:
                seq = self.running[chunk.request]
                self.prefilling.remove(seq)
                if not seq.generated:
                    first.append(seq)
                if self._start_decoding(seq):
                    complete.append(seq)
        if len(complete) > 1:  # they let go in the order in which they run
            by_admission(complete)
        for seq in complete:
            self._finish(seq, finished)
        if self._static and not self.running:
            for seq in self.held:
                self._leave(seq, finished)
            self.held.clear()
        return first, finished

    def depart(self, finished: list[Sequence]) -> None:
        """The step with their last token has run: planned ahead, they leave only now."""
        for seq in finished:
            self.departing.remove(seq)
            seq.unsettled = 0
            if self.running.pop(seq.index, None):  # else preempted with the token under way
                self.manager.release(seq)
            self._finished.append(seq.index)

    # -- steps of the above ------------------------------------------------------------------

    def _make_room(self, preempted: list[int]) -> None:
        """Preempt until the decoding batch can grow by a token each."""
        while self.manager.decoding and not self.manager.growable(1):
            self.manager.strain()
            if self.held:  # whoever is done already goes before anyone is interrupted
                self._leave(self.held.pop(), self.leaving)
            else:
                preempted.append(self._preempt(self._victim()))

    def _victim(self) -> Sequence:
        chosen = victim = next(reversed(self.running.values()))
        if self._victim_sign:
            for victim in reversed(self.running.values()):
                if self._victim_sign * (self._context(victim) - self._context(chosen)) > 0:
                    chosen = victim
        return chosen

    def _context(self, seq: Sequence) -> int:
        return seq.stored + (self.manager.tick - seq.joined_tick if seq.joined_tick >= 0 else 0)

    def _preempt(self, seq: Sequence) -> int:
        del self.running[seq.index]
        if seq in self.departing:
            self.manager.release(seq)
            seq.preemptions += 1
            return seq.index
        if seq.joined_tick >= 0:
            decoded = self.manager.tick - seq.joined_tick
            seq.generated += decoded
            seq.unsettled = int(self._ahead and decoded > 0)
        else:
            self.prefilling.remove(seq)
        self.manager.release(seq)
        seq.unsettled = 0
        seq.preemptions += 1
        seq.lost = seq.stored
        seq.recomputed += seq.lost
        if self._swaps:
            self.swap.store(seq, self.manager.transfer_bytes(seq.lost))
        seq.stored = 0
        seq.target = seq.prompt + seq.generated
        if self._preempted_first:
            self.waiting.appendleft(seq)
        else:
            self.waiting.append(seq)
        return seq.index

    def _extend_before_decodes(self, chunks: list[Chunk], preempted: list[int]) -> int:
        """Short chunks let others decode behind a context: it takes its memory before they do.

        Returns the number of the admission up to which that is done. Each decode keeps its token of
        the budget, where vLLM would leave the last ones out.
        """
        until = 0
        for seq in self.running.values():
            if seq.joined_tick >= 0 and seq.admission > until:
                until = seq.admission
        budget = self._max_num_batched_tokens - self.manager.decoding
        self._extend(budget, chunks, preempted, 0, until)
        return until

    def _chunk(self, seq: Sequence, budget: int) -> int:
        """Tokens of its context that come next."""
        wanted = seq.target - seq.stored
        if self._static:
            return wanted
        return min(wanted, budget, self._longest_chunk)

    def _extend(
        self, budget: int, chunks: list[Chunk], preempted: list[int], first: int, until: int
    ) -> int:
        """Go on with contexts begun in earlier steps; returns the tokens that takes.

        Of those alone whose admission has a number from `first` on and below `until`.
        """
        left = budget
        for seq in tuple(self.prefilling):
            if not first <= seq.admission < until or seq.index not in self.running:
                continue  # not its turn, or preempted for one of the others
            while not self.manager.can_extend(seq, self._chunk(seq, left)):
                self.manager.strain(seq)
                victim = next(reversed(self.running.values()))
                preempted.append(self._preempt(victim))
                if victim is seq:
                    break
            else:
                left -= self._prefill(seq, left, chunks)
        return budget - left

    def _admit(self, budget: int, chunks: list[Chunk], admitted: list[int]) -> int:
        """Begin contexts of waiting requests; returns the tokens that takes."""
        waiting, running, manager = self.waiting, self.running, self.manager
        if self._static:
            if running:
                return 0
            budget = contexts(waiting)
        left, most, whole = budget, self._max_num_seqs, self._whole_prompt
        while waiting and left > 0 and len(running) < most:
            seq = waiting[0]
            if not (manager.can_admit(seq) if whole else self._begins(seq, left)):
                break
            if not manager.can_begin(seq, min(left, self._longest_chunk)):
                break
            waiting.popleft()
            manager.admit(seq)
            if seq.preemptions:
                if seq.swapped:
                    self._swap_in(seq)
                seq.recomputed -= min(seq.lost, seq.stored)  # it has its own again
            else:
                seq.cached = seq.stored
            self._admissions += 1
            seq.admission = self._admissions
            running[seq.index] = seq
            self.prefilling.append(seq)
            admitted.append(seq.index)
            left -= self._prefill(seq, left, chunks)  # the whole fits, so its beginning does
        return budget - left

    def _begins(self, seq: Sequence, budget: int) -> bool:
        """Whether the request fits as far as its first chunk."""
        whole = seq.target
        seq.target = min(whole, max(self.manager.found(seq), seq.swapped) + budget)
        fits = self.manager.can_admit(seq)
        seq.target = whole
        return fits

    def _swap_in(self, seq: Sequence) -> None:
        """Bring back what the host keeps beyond the tokens that admission found in the cache."""
        manager, found, kept = self.manager, seq.stored, seq.swapped
        missing = max(0, kept - found)
        if missing:
            manager.extend(seq, missing)
            missing = manager.missing_bytes(kept, found)
        self.swap.load(seq, found, missing)

    def _prefill(self, seq: Sequence, budget: int, chunks: list[Chunk]) -> int:
        """Take memory for the next chunk of a context, and say how long it is."""
        start, tokens = seq.stored, self._chunk(seq, budget)
        if tokens:
            self.manager.extend(seq, tokens)
            chunks.append(make_chunk((seq.index, start, tokens, seq.stored == seq.target)))
        return tokens

    def _start_decoding(self, seq: Sequence) -> bool:
        """The step that completed the context also sampled a token. Whether it was the last."""
        seq.generated += 1
        if seq.generated == seq.output:
            return True
        manager = self.manager
        manager.join(seq)
        finish_tick = manager.tick + seq.output - seq.generated
        heappush(self._finishing, (finish_tick, seq.admission, seq))
        if self._knows_longest:
            heappush(self._longest, (manager.tick - seq.stored, seq.admission, seq))
        return False

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
        if self._ahead:
            if seq.joined_tick >= 0:
                self.manager.rest(seq)
                seq.unsettled = 1
            self.departing.append(seq)
            finished.append(seq)
            return
        del self.running[seq.index]
        if self._static:
            if seq.joined_tick >= 0:
                self.manager.rest(seq)
            self.held.append(seq)
            return
        self.manager.release(seq)
        self._finished.append(seq.index)
        finished.append(seq)

    def _leave(self, seq: Sequence, finished: list[Sequence]) -> None:
        self.manager.release(seq)
        self._finished.append(seq.index)
        finished.append(seq)
