"""What `lower` doesn't make: lists in one array of integers, a clock of two, and the run itself.

All of it works on a state S of arrays (`state.State`), as it stands here or compiled. A list at
`at` has its length in `S[at]` and its items behind it; a deque has its first item's place and
its room in between, a heap of three integers an entry its room.
"""

from math import sqrt

from sim.run.compiled.lists import deque_append, list_extend
from sim.run.compiled.made import made

loop_turn = loop_woke = loop_ran = ahead_turn = ahead_woke = ahead_ran = made
scheduler_servable = scheduler__longest_context = noted_holes = cost_linear = made
manager_tallied = manager_reads = made

# Places in S, which `build` decides.
WIDTH = 0  # of a request
arrivals_last_ns = arrivals_next_as_a = arrivals_next_as_s = arrivals_row = arrivals_rows = 0
arrivals_slots = 0
cost_weights = loop_now_as_a = loop_now_as_s = loop_until_as_a = loop_until_as_s = 0
manager_context = manager_decoding = plan_context = plan_decodes = plan_growth_bytes = 0
plan_max_steps = plan_prefill_tokens = plan_read_bytes = plan_step = recorder_event_room = 0
plan_finished = plan_swap_out = plan_swap_in = plan_longest = recorder_recomputes = 0
swap__out_bytes = swap__in_bytes = swap_moving = run_host_byte_as = scheduler__knows_longest = 0
recorder_event_table = recorder_event_width = recorder_events = recorder_interval_a = 0
recorder_interval_s = recorder_next_sample_as_a = recorder_next_sample_as_s = 0
recorder_hole_room = recorder_holes = recorder_sample_room = recorder_sample_table = (
    recorder_sample_width
) = recorder_samples = 0
recorder_stretch_room = recorder_stretch_table = recorder_stretches = request_arrival_ns = 0
request_away_a = request_away_s = request_back_a = request_back_s = request_finish_a = 0
request_finish_s = request_first_a = request_first_s = request_gone_a = request_gone_s = 0
request_output = request_prompt = request_scheduled_a = request_scheduled_s = 0
run_failed = run_first_s = run_first_a = run_spaces = run_ahead = 0
run_end_a = run_end_s = run_fast_forward = run_growth = run_sampled = 0
run_started = run_steps = run_turn = scheduler__finished = scheduler__unreported = 0
scheduler_running = scheduler_steps = scheduler_waiting = t_admitted = t_chunks = 0
t_preempted = 0

# -- from here on this is also the beginning of every compiled module --

END, IDLE, WORK = 0, 1, 2
DONE, FULL, SAMPLED, SHORT, FAILED = 0, 1, 2, 3, 4
GAP, AWAY, REDONE = 0, 1, 2
E9, E18 = 10**9, 10**18
maxsize = 2**62
NEVER = (2**62, 0)

# -- time ----------------------------------------------------------------------------------------


def earlier(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a if a <= b else b


def times(k: int, value: int) -> tuple[int, int]:
    """k * value attoseconds; value and value // 10**9 * k stay below 2**62."""
    high, low = value // E9 * k, value % E9 * k
    rest = high % E9 * E9 + low % E18
    return high // E9 + low // E18 + rest // E18, rest % E18


def lasting(k: int, first: int, growth: int) -> tuple[int, int]:
    """So many steps, of which number j (from 0) lasts first + j * growth."""
    s, a = times(k, first)
    if growth and k > 1:
        more_s, more_a = times(k * (k - 1) // 2, growth)
        s, a = s + more_s, a + more_a
        if a >= E18:
            s, a = s + 1, a - E18
    return s, a


def steps_to_reach(first: int, growth: int, span_s: int, span_a: int, limit: int) -> int:
    """As `sim.run.driver.steps_to_reach`."""
    if lasting(1, first, growth) >= (span_s, span_a):
        return 1
    span = span_s * 1e18 + span_a
    if growth == 0:
        guess = span / first
    else:
        b = first - growth / 2
        guess = (sqrt(b * b + 2.0 * growth * span) - b) / growth
    k = limit if guess > limit else max(1, int(guess))
    while k < limit and lasting(k, first, growth) < (span_s, span_a):
        k += 1
    while k > 1 and lasting(k - 1, first, growth) >= (span_s, span_a):
        k -= 1
    return k


# -- records -------------------------------------------------------------------------------------


def scheduler__plan(
    S: list[int], max_steps: int, prefill_tokens: int, chunks: int, admitted: int, preempted: int
) -> bool:
    """The step that was decided, as fields."""
    unreported = S[scheduler__unreported]
    if S[unreported]:
        list_extend(S, preempted, unreported)
        S[unreported] = 0
    S[plan_finished] = S[S[scheduler__finished]]
    S[S[scheduler__finished]] = 0  # nobody waits to be told who has left
    S[plan_swap_out], S[plan_swap_in] = S[swap__out_bytes], S[swap__in_bytes]
    S[swap__out_bytes] = S[swap__in_bytes] = S[swap_moving] = 0
    S[plan_longest] = scheduler__longest_context(S) if S[scheduler__knows_longest] else 0
    S[plan_read_bytes], S[plan_growth_bytes] = manager_reads(S)
    S[plan_step] = S[scheduler_steps]
    S[scheduler_steps] += 1
    S[plan_max_steps] = max_steps
    S[plan_prefill_tokens] = prefill_tokens
    S[plan_decodes] = S[manager_decoding]
    S[plan_context] = S[manager_context]
    return True


def recorder_sample(S: list[int], now: tuple[int, int]) -> None:
    if S[recorder_interval_s]:  # whole seconds, else a part of one
        S[recorder_next_sample_as_s] = (now[0] // S[recorder_interval_s] + 1) * S[
            recorder_interval_s
        ]
        S[recorder_next_sample_as_a] = 0
    else:
        a = (now[1] // S[recorder_interval_a] + 1) * S[recorder_interval_a]
        S[recorder_next_sample_as_s] = now[0] + a // E18
        S[recorder_next_sample_as_a] = a % E18
    row = S[recorder_sample_table] + S[recorder_samples] * S[recorder_sample_width]
    S[recorder_samples] += 1
    S[run_sampled] = 1
    S[row], S[row + 1] = now
    S[row + 2] = S[S[scheduler_running]]
    S[row + 3] = S[S[scheduler_waiting]]
    S[row + 4] = noted_holes(S) if S[run_spaces] else 0
    manager_tallied(S, row + 5)


def _stretch(S: list[int], kind: int, since: int, seq: int, until: tuple[int, int]) -> None:
    """What began at the instant in `since` ends, if it had begun."""
    if S[since] < 0:
        return
    row = S[recorder_stretch_table] + 6 * S[recorder_stretches]
    S[recorder_stretches] += 1
    S[row], S[row + 1] = seq, kind
    S[row + 2], S[row + 3] = S[since], S[since + 1]
    S[row + 4], S[row + 5] = until
    S[since] = -1


def recorder_stepped(
    S: list[int], start: tuple[int, int], done: tuple[tuple[int, int], int, tuple[int, int], int]
) -> None:
    end, steps, first, growth = done
    admitted, preempted, chunks = S[t_admitted], S[t_preempted], S[t_chunks]
    for i in range(S[admitted]):
        seq = S[admitted + 1 + i]
        if S[request_scheduled_s + WIDTH * seq] < 0:
            S[request_scheduled_s + WIDTH * seq], S[request_scheduled_a + WIDTH * seq] = start
        elif S[request_gone_s + WIDTH * seq] >= 0:
            _stretch(S, AWAY, request_gone_s + WIDTH * seq, seq, start)
            if S[recorder_recomputes]:
                S[request_back_s + WIDTH * seq], S[request_back_a + WIDTH * seq] = start
    for i in range(S[preempted]):
        seq = S[preempted + 1 + i]
        if S[request_first_s + WIDTH * seq] >= 0:  # it had streamed tokens
            if S[request_away_s + WIDTH * seq] < 0:
                S[request_away_s + WIDTH * seq], S[request_away_a + WIDTH * seq] = start
            S[request_gone_s + WIDTH * seq], S[request_gone_a + WIDTH * seq] = start
            _stretch(S, REDONE, request_back_s + WIDTH * seq, seq, start)
    for i in range(S[chunks]):
        j = chunks + 1 + 4 * i
        seq = S[j]
        if S[j + 3] and S[request_away_s + WIDTH * seq] >= 0:
            _stretch(S, REDONE, request_back_s + WIDTH * seq, seq, end)
            _stretch(S, GAP, request_away_s + WIDTH * seq, seq, end)
    row = S[recorder_event_table] + S[recorder_events] * S[recorder_event_width]
    S[recorder_events] += 1
    S[row], S[row + 1] = start
    S[row + 2], S[row + 3] = end
    S[row + 4], S[row + 5] = first
    S[row + 6] = growth
    S[row + 7], S[row + 8] = S[plan_step], steps
    S[row + 9], S[row + 10] = S[plan_decodes], S[plan_context]
    S[row + 11], S[row + 12] = S[plan_read_bytes], S[plan_prefill_tokens]
    S[row + 13], S[row + 14] = S[S[scheduler_running]], S[S[scheduler_waiting]]
    S[row + 15], S[row + 16] = S[admitted], S[preempted]
    S[row + 17], S[row + 18] = S[plan_swap_out], S[plan_swap_in]
    manager_tallied(S, row + 19)


def recorder_completed(S: list[int], now: tuple[int, int], first: int, finished: int) -> None:
    for i in range(S[first]):
        seq = S[first + 1 + i]
        S[request_first_s + WIDTH * seq], S[request_first_a + WIDTH * seq] = now
    for i in range(S[finished]):
        seq = S[finished + 1 + i]
        S[request_finish_s + WIDTH * seq], S[request_finish_a + WIDTH * seq] = now


def arrivals_receive(S: list[int], now: tuple[int, int]) -> None:
    """As `sim.engine.arrivals.Stamped`; a request that is refused gets no output."""
    while (S[arrivals_next_as_s], S[arrivals_next_as_a]) <= now:
        seq = S[S[arrivals_slots] + S[arrivals_row]]
        output = scheduler_servable(
            S, S[request_prompt + WIDTH * seq], S[request_output + WIDTH * seq]
        )
        S[request_output + WIDTH * seq] = output
        if output:
            deque_append(S, S[scheduler_waiting], seq)
        S[arrivals_row] += 1
        arrivals_look(S)


def arrivals_look(S: list[int]) -> None:
    """When the next of the rows at hand comes."""
    if S[arrivals_row] == S[arrivals_rows]:
        S[arrivals_next_as_s], S[arrivals_next_as_a] = NEVER
    else:
        ns = S[request_arrival_ns + WIDTH * S[S[arrivals_slots] + S[arrivals_row]]]
        S[arrivals_next_as_s], S[arrivals_next_as_a] = ns // E9, ns % E9 * E9


def arrivals_known(S: list[int], until: tuple[int, int]) -> bool:
    """Whether all who come by that instant, and one later than it, are among the rows at hand."""
    ns = S[arrivals_last_ns]
    return ns < 0 or (ns // E9, ns % E9 * E9) > until


def arrivals_answered(S: list[int], now: tuple[int, int], left: int) -> None:
    """Nobody waits for anyone."""


# -- cost and run --------------------------------------------------------------------------------


def cost__reading_as(S: list[int], count: int) -> int:
    """Time to read the weights that so many tokens need."""
    return S[S[cost_weights] + 1 + min(count, S[S[cost_weights]] - 1)]


def _later(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    s, rest = a[0] + b[0], a[1] + b[1]
    return (s + 1, rest - E18) if rest >= E18 else (s, rest)


def execute(S: list[int], F: list[float]) -> tuple[tuple[int, int], int, tuple[int, int], int]:
    """As `sim.run.driver`: when the plan's steps end, how many are run, and what each takes."""
    moved = times(S[run_host_byte_as], S[plan_swap_out] + S[plan_swap_in])
    now = _later((S[loop_now_as_s], S[loop_now_as_a]), moved)
    first, growth, valid = cost_linear(S, F)
    steps = valid if S[run_fast_forward] else 1
    took = first // E18, first % E18
    alone = _later(moved, took)
    if steps > 1:
        took = lasting(steps, first, growth)
        span_s, span_a = S[loop_until_as_s] - now[0], S[loop_until_as_a] - now[1]
        if span_a < 0:
            span_s, span_a = span_s - 1, span_a + E18
        if took > (span_s, span_a):
            steps = steps_to_reach(first, growth, span_s, span_a, steps)
            took = lasting(steps, first, growth)
    return _later(now, took), steps, alone, growth


def run(S: list[int], F: list[float]) -> int:
    """Until the run ends, a table is full, a sample was taken, further rows are needed, or a step
    would take no time.

    A step is planned and timed before it is known who comes in the meantime. Where that needs rows
    that aren't at hand, the step waits in S for the next call.
    """
    if not S[run_started]:
        if not arrivals_known(S, (0, 0)):
            return SHORT
        S[run_started] = 1
        arrivals_receive(S, (0, 0))
    while True:
        if S[run_turn] == END:
            if (
                S[recorder_events] == S[recorder_event_room]
                or S[recorder_stretches] > S[recorder_stretch_room]
                or S[recorder_samples] == S[recorder_sample_room]
                or S[recorder_holes] > S[recorder_hole_room]
            ):
                return FULL
            S[run_turn] = ahead_turn(S) if S[run_ahead] else loop_turn(S)
            if S[run_turn] == END:
                return DONE
            if S[run_turn] == WORK:
                end, S[run_steps], first, S[run_growth] = execute(S, F)
                if S[run_failed]:
                    return FAILED
                S[run_end_s], S[run_end_a] = end
                S[run_first_s], S[run_first_a] = first
            else:
                S[run_end_s], S[run_end_a] = S[loop_until_as_s], S[loop_until_as_a]
        end = (S[run_end_s], S[run_end_a])
        if not arrivals_known(S, end):
            return SHORT
        if S[run_turn] == WORK:
            done = (end, S[run_steps], (S[run_first_s], S[run_first_a]), S[run_growth])
            if S[run_ahead]:
                ahead_ran(S, done)
            else:
                loop_ran(S, done)
        elif S[run_ahead]:
            ahead_woke(S, end)
        else:
            loop_woke(S, end)
        S[run_turn] = END
        if S[run_sampled]:
            S[run_sampled] = 0
            return SAMPLED
