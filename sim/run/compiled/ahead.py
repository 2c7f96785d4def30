"""The loop of `sim.engine.ahead` over S: the step planned last is `plan`, that in flight `flight`.

Steps are carried out and recorded as `plan`, so the two change places for that.
"""

from sim.run.compiled.given import (
    END,
    IDLE,
    NEVER,
    WORK,
    arrivals_answered,
    arrivals_receive,
    earlier,
    recorder_completed,
    recorder_sample,
    recorder_stepped,
)
from sim.run.compiled.made import made

scheduler_schedule = scheduler_advance = scheduler_complete = scheduler_depart = made
scheduler_takes_arrivals = made

# Places in S, which `build` decides.
arrivals_next_as_a = arrivals_next_as_s = flight_context = flight_decodes = flight_finished = 0
flight_growth_bytes = flight_longest = flight_max_steps = flight_prefill_tokens = 0
flight_read_bytes = flight_step = flight_swap_in = flight_swap_out = loop_flying = 0
loop_follows = loop_horizon_as_a = loop_horizon_as_s = loop_now_as_a = loop_now_as_s = 0
loop_until_as_a = loop_until_as_s = plan_context = plan_decodes = plan_finished = 0
plan_growth_bytes = plan_longest = plan_max_steps = plan_prefill_tokens = plan_read_bytes = 0
plan_step = plan_swap_in = plan_swap_out = recorder_next_sample_as_a = 0
recorder_next_sample_as_s = t_admitted = t_chunks = t_finished = t_first = t_preempted = 0
flight_admitted_list = flight_chunks_list = flight_finished_list = flight_first_list = 0
flight_preempted_list = 0

# -- from here on this is also the beginning of every compiled module --


def _exchange(S: list[int]) -> None:
    S[plan_step], S[flight_step] = S[flight_step], S[plan_step]
    S[plan_max_steps], S[flight_max_steps] = S[flight_max_steps], S[plan_max_steps]
    S[plan_decodes], S[flight_decodes] = S[flight_decodes], S[plan_decodes]
    S[plan_context], S[flight_context] = S[flight_context], S[plan_context]
    S[plan_read_bytes], S[flight_read_bytes] = S[flight_read_bytes], S[plan_read_bytes]
    S[plan_growth_bytes], S[flight_growth_bytes] = S[flight_growth_bytes], S[plan_growth_bytes]
    S[plan_prefill_tokens], S[flight_prefill_tokens] = (
        S[flight_prefill_tokens],
        S[plan_prefill_tokens],
    )
    S[plan_finished], S[flight_finished] = S[flight_finished], S[plan_finished]
    S[plan_swap_out], S[flight_swap_out] = S[flight_swap_out], S[plan_swap_out]
    S[plan_swap_in], S[flight_swap_in] = S[flight_swap_in], S[plan_swap_in]
    S[plan_longest], S[flight_longest] = S[flight_longest], S[plan_longest]
    S[t_chunks], S[flight_chunks_list] = S[flight_chunks_list], S[t_chunks]
    S[t_admitted], S[flight_admitted_list] = S[flight_admitted_list], S[t_admitted]
    S[t_preempted], S[flight_preempted_list] = S[flight_preempted_list], S[t_preempted]
    S[t_first], S[flight_first_list] = S[flight_first_list], S[t_first]
    S[t_finished], S[flight_finished_list] = S[flight_finished_list], S[t_finished]


def _take_off(S: list[int], steps: int) -> None:
    """So many repetitions of the plan are decided: the last is in flight, the others have run."""
    scheduler_advance(S, steps)
    before = steps - 1
    S[plan_step] += before
    S[plan_max_steps] = 1
    S[plan_context] += before * S[plan_decodes]
    S[plan_read_bytes] += before * S[plan_growth_bytes]
    S[plan_longest] += before
    scheduler_complete(S)


def _continues(S: list[int]) -> bool:
    """Whether the plan is the flight's batch, a token longer each."""
    if S[S[flight_chunks_list]] or S[S[t_chunks]] or S[plan_finished]:
        return False
    if S[S[flight_preempted_list]] or S[S[t_preempted]]:
        return False
    return (
        S[plan_decodes] == S[flight_decodes]
        and S[plan_context] == S[flight_context] + S[flight_decodes]
        and S[plan_read_bytes] == S[flight_read_bytes] + S[flight_growth_bytes]
        and S[plan_growth_bytes] == S[flight_growth_bytes]
    )


def ahead_turn(S: list[int]) -> int:
    now = S[loop_now_as_s], S[loop_now_as_a]
    horizon = S[loop_horizon_as_s], S[loop_horizon_as_a]
    if now >= horizon:
        return END
    if not S[loop_flying] and scheduler_schedule(S):
        _take_off(S, 1)
        _exchange(S)
        S[loop_flying] = 1
    S[loop_follows] = 0
    if S[loop_flying] and scheduler_schedule(S):
        S[loop_follows] = 1
    if now >= (S[recorder_next_sample_as_s], S[recorder_next_sample_as_a]):
        recorder_sample(S, now)
    until = S[recorder_next_sample_as_s], S[recorder_next_sample_as_a]
    coming = S[arrivals_next_as_s], S[arrivals_next_as_a]
    if not S[loop_flying]:
        if coming == NEVER:
            return END
        S[loop_until_as_s], S[loop_until_as_a] = earlier(earlier(coming, until), horizon)
        return IDLE
    if coming < until and scheduler_takes_arrivals(S):
        until = coming
    S[loop_until_as_s], S[loop_until_as_a] = earlier(until, horizon)
    continues = S[loop_follows] and _continues(S)
    _exchange(S)
    if continues:
        S[plan_max_steps] = S[flight_max_steps]
    return WORK


def ahead_woke(S: list[int], now: tuple[int, int]) -> None:
    S[loop_now_as_s], S[loop_now_as_a] = now
    arrivals_receive(S, now)


def ahead_ran(S: list[int], done: tuple[tuple[int, int], int, tuple[int, int], int]) -> None:
    end, steps, _, _ = done
    now = S[loop_now_as_s], S[loop_now_as_a]
    if S[loop_follows]:
        _exchange(S)
        _take_off(S, steps)
        _exchange(S)
    else:
        S[loop_flying] = 0
    arrivals_receive(S, end)
    recorder_stepped(S, now, done)
    S[loop_now_as_s], S[loop_now_as_a] = end
    first, finished = S[t_first], S[t_finished]
    scheduler_depart(S, finished)
    if S[first] or S[finished]:
        recorder_completed(S, end, first, finished)
        if S[finished]:
            arrivals_answered(S, end, finished)
            arrivals_receive(S, end)
