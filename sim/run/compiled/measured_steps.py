"""Step times from tables of whole steps, as `sim.cost.steps` has them; see `costs`."""

from sim.run.compiled.measured_lines import AS_PER_S, UNBOUNDED, _along, _crossing

# Places in S, which `build` decides.
measured_at = plan_decodes = plan_growth_bytes = plan_max_steps = plan_read_bytes = 0
run_failed = steps_answers = steps_contexts = steps_decode_row = steps_dense = 0
steps_failed_first = steps_failed_tokens = steps_kept = steps_most_batch = steps_most_tokens = 0
steps_most_chunk = steps_past_reach = 0
steps_outside = steps_prefill_row = steps_reach = steps_sampling = steps_token_bytes = 0
t_chunks = 0

# -- from here on this is also the beginning of every compiled module --


def _steps_dense(S: list[int], F: list[float], tokens: int) -> int:
    return round(_along(S, F, S[measured_at] + S[steps_dense], float(tokens)) * AS_PER_S)


def _steps_sampling(S: list[int], F: list[float], samples: int) -> int:
    return round(_along(S, F, S[measured_at] + S[steps_sampling], float(samples)) * AS_PER_S)


def _steps_chunk(S: list[int], F: list[float], tokens: int, start: int) -> int:
    past = min(start, S[steps_kept])
    row = S[measured_at] + S[steps_prefill_row]
    whole = round(_crossing(S, F, row, tokens, past) * AS_PER_S)
    return whole - _steps_dense(S, F, tokens) - _steps_sampling(S, F, 1)


def steps_linear(S: list[int], F: list[float]) -> tuple[int, int, int]:
    n, read, grows = S[plan_decodes], S[plan_read_bytes], S[plan_growth_bytes]
    tokens, samples, first, outside = n, n, 0, False
    chunks = S[t_chunks]
    for i in range(S[chunks]):
        start, length = S[chunks + 2 + 4 * i], S[chunks + 3 + 4 * i]
        tokens += length
        samples += S[chunks + 4 + 4 * i]
        first += _steps_chunk(S, F, length, start)
        reach = S[S[measured_at] + S[steps_past_reach] + min(length, S[steps_most_chunk])]
        outside = outside or length > S[steps_most_chunk] or min(start, S[steps_kept]) > reach
    first += _steps_dense(S, F, tokens) + _steps_sampling(S, F, samples)
    S[steps_answers] += 1
    outside = outside or tokens > S[steps_most_tokens] or n > S[steps_most_batch]
    growth, valid = 0, S[plan_max_steps]
    if n:
        until, intercept, slope = _steps_segment(S, F, n, read)
        first += intercept + slope * read
        reach = S[S[measured_at] + S[steps_reach] + min(n, S[steps_most_batch])]
        outside = outside or read >= reach * S[steps_token_bytes] * n
        if grows:
            growth = slope * grows
            valid = min(valid, -(-(until - read) // grows))
    S[steps_outside] += outside
    if first <= 0:
        S[run_failed], S[steps_failed_first], S[steps_failed_tokens] = 1, first, tokens
        return 1, 0, 1
    if growth < 0:  # as far as the line stays above 0
        valid = min(valid, (first - 1) // -growth + 1)
    return first, growth, valid


def _steps_segment(S: list[int], F: list[float], n: int, read: int) -> tuple[int, int, int]:
    """(until, intercept, slope) of attention of so many decoding requests, by bytes read."""
    xs = S[measured_at] + S[steps_contexts]
    row = S[measured_at] + S[steps_decode_row]
    token = S[steps_token_bytes] * n
    rest = _steps_dense(S, F, n) + _steps_sampling(S, F, n)
    count = S[xs]
    if count == 1:
        only = round(_crossing(S, F, row, n, S[xs + 1]) * AS_PER_S) - rest
        return S[xs + 1] * token if read < S[xs + 1] * token else UNBOUNDED, only, 0
    cell = 0
    while cell < count - 1 and S[xs + 2 + cell] * token <= read:
        cell += 1
    until = UNBOUNDED if cell == count - 1 else S[xs + 2 + cell] * token
    cell = min(cell, count - 2)
    low, high = S[xs + 1 + cell], S[xs + 2 + cell]
    low_as = _crossing(S, F, row, n, low) * AS_PER_S
    high_as = _crossing(S, F, row, n, high) * AS_PER_S
    slope = round((high_as - low_as) / ((high - low) * token))
    return until, round(low_as) - slope * low * token - rest, slope
