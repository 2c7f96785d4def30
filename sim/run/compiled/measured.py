"""Step times from tables of kernels, as `sim.cost.kernels` has them; those of any cost model."""

from sim.run.compiled.lists import bit_length
from sim.run.compiled.made import made
from sim.run.compiled.measured_lines import UNBOUNDED, _along, _say, _segment
from sim.run.compiled.measured_steps import steps_linear

cost_step_as = made

# Places in S, which `build` decides.
cost__byte_as = cost__step_as = kernel_chunk_row = kernel_contexts = kernel_decode_row = 0
kernel_experts = kernel_has_experts = kernel_layers = kernel_lines = kernel_longest_earlier = 0
kernel_most_beside = kernel_most_decodes = kernel_most_expert_tokens = kernel_most_sequences = 0
kernel_most_tokens = kernel_numbers = kernel_overlaps = kernel_padded_to = kernel_reduce_line = 0
kernel_reduced_bytes = kernel_reduces = kernel_sequence_lines = kernel_skew_n = kernel_skewed = 0
kernel_step_lines = kernel_token_bytes = measured_at = plan_context = plan_decodes = 0
plan_growth_bytes = plan_longest = plan_max_steps = plan_prefill_tokens = plan_read_bytes = 0
run_cost = t_chunks = 0

# -- from here on this is also the beginning of every compiled module --

AS_PER_US = 10**12
LEAST_SHARE = 0.3
CONTEXT, DECODES, EARLIER, CHUNK_TOKENS, BESIDE, STEP_TOKENS, SEQUENCES, NOTED = range(8)
KEY_US, TOKEN_US, PAIR_US, HIDDEN_US, HOST_US, SKEW_KEY_US, UNSPLIT, REDUCE = range(8)
ROOFLINE, KERNELS, STEPS, FIXED = range(4)


def cost_linear(S: list[int], F: list[float]) -> tuple[int, int, int]:
    """(first, growth, valid) of the plan by the run's kind of cost model."""
    kind = S[run_cost]
    if kind == KERNELS:
        return kernel_linear(S, F)
    if kind == STEPS:
        return steps_linear(S, F)
    if kind == FIXED:
        return S[cost__step_as], 0, S[plan_max_steps]
    first = cost_step_as(
        S, S[plan_decodes], S[plan_prefill_tokens], S[plan_read_bytes], S[t_chunks]
    )
    return first, S[plan_growth_bytes] * S[cost__byte_as], S[plan_max_steps]


def _stair(S: list[int], F: list[float], at: int, x: int) -> float:
    n = S[at]
    for i in range(n):
        if S[at + 1 + i] >= x:
            return F[S[at + 1 + n] + i]
    return F[S[at + 1 + n] + n - 1]


def _neighbours(S: list[int], at: int, x: float) -> tuple[int, int, float]:
    """Places of the entries of a row around x, and how far x lies between them."""
    n = S[at]
    base = S[measured_at]
    if n == 1 or x <= S[at + 1]:
        return base + S[at + 1 + n], base + S[at + 1 + n], 0.0
    i = _segment(S, at, x)
    share = (x - S[at + 1 + i]) / (S[at + 2 + i] - S[at + 1 + i])
    return base + S[at + 1 + n + i], base + S[at + 2 + n + i], share


def _across(S: list[int], F: list[float], row: int, decodes: int, context: float) -> float:
    low, high, share = _neighbours(S, row, float(decodes))
    first = _along(S, F, low, context)
    if share == 0.0:
        return first
    return first + share * (_along(S, F, high, context) - first)


def _grid_decode(S: list[int], F: list[float], decodes: int, context: float) -> float:
    return _across(S, F, S[measured_at] + S[kernel_decode_row], decodes, context)


def _grid_chunk(
    S: list[int], F: list[float], chunk: int, earlier: float, decodes: int, context: float
) -> float:
    row = S[measured_at] + S[kernel_chunk_row]
    low, high, share = _neighbours(S, row, float(chunk))
    first = _grid_earlier(S, F, low, earlier, decodes, context)
    if share == 0.0:
        return first
    return first + share * (_grid_earlier(S, F, high, earlier, decodes, context) - first)


def _grid_earlier(
    S: list[int], F: list[float], pair: int, earlier: float, decodes: int, context: float
) -> float:
    """Of two rows: of what was measured beside decodes, and of what was measured without."""
    row = S[measured_at] + (S[pair] if decodes else S[pair + 1])
    low, high, share = _neighbours(S, row, earlier)
    first = _across(S, F, low, decodes, context)
    if share == 0.0:
        return first
    return first + share * (_across(S, F, high, decodes, context) - first)


def _captured(tokens: int, limit: int) -> int:
    if tokens > limit or tokens <= 0:
        return tokens
    if tokens <= 4:
        return 1 << bit_length(tokens - 1)
    stride = 8 if tokens <= 256 else 16
    return min(-(-tokens // stride) * stride, limit)


def _kernel_dense(S: list[int], F: list[float], tokens: int, sequences: int) -> int:
    number = S[kernel_numbers]
    base = S[measured_at]
    layers = S[kernel_layers]
    padded = _captured(tokens, S[kernel_padded_to])
    known = min(padded, S[kernel_most_tokens])
    us = 0.0
    at = base + S[kernel_lines]
    for i in range(S[at]):  # line, whether it goes in stairs, how often
        line = base + S[at + 1 + 3 * i]
        stairs = S[at + 2 + 3 * i]
        value = _stair(S, F, line, known) if stairs else _along(S, F, line, float(known))
        us += layers * S[at + 3 + 3 * i] * value
    if S[kernel_has_experts]:
        us += layers * F[S[kernel_experts] + min(padded, S[kernel_most_expert_tokens])]
    us = max(us - layers * F[number + HIDDEN_US], 0.0)
    us += F[number + HOST_US]
    total = 0.0
    at = base + S[kernel_step_lines]
    for i in range(S[at]):
        total += _along(S, F, base + S[at + 1 + i], float(known))
    us += total
    if padded > known:
        _say(S, STEP_TOKENS, known, padded)
        us += (padded - known) * F[number + TOKEN_US]
    if sequences > S[kernel_most_sequences]:
        _say(S, SEQUENCES, S[kernel_most_sequences], sequences)
    total = 0.0
    at = base + S[kernel_sequence_lines]
    for i in range(S[at]):
        total += _along(S, F, base + S[at + 1 + i], float(sequences))
    us += total
    if S[kernel_reduces]:
        us += (2 * layers + 1) * _reduce_s(S, F, padded * S[kernel_reduced_bytes]) * 1e6
    return round(us * AS_PER_US)


def _reduce_s(S: list[int], F: list[float], size_bytes: int) -> float:
    if S[kernel_reduces] == 2:
        line = S[measured_at] + S[kernel_reduce_line]
        return _along(S, F, line, float(max(size_bytes, S[line + 1]))) / 1e6
    number = S[kernel_numbers] + REDUCE  # small latency and bandwidth, switch, and of large ones
    if size_bytes <= F[number + 2]:
        return F[number] + size_bytes / F[number + 1]
    return F[number + 3] + size_bytes / F[number + 4]


def _alpha(S: list[int], F: list[float], n: int) -> float:
    at = S[measured_at] + S[kernel_skew_n]
    count = S[at]
    padded = _captured(n, S[kernel_padded_to])
    if padded < F[S[kernel_numbers] + UNSPLIT] or not count:
        return 0.0
    y = S[at + 1 + count]
    i = 0
    while i < count and S[at + 1 + i] <= n:
        i += 1
    if i in (0, count):
        return F[y + min(i, count - 1)] / n
    a, b = S[at + i], S[at + 1 + i]
    low, high = F[y + i - 1], F[y + i]
    return (low + (high - low) * (n - a) / (b - a)) / n


def _kernel_line(
    S: list[int], F: list[float], n: int, context: int, longest: bool
) -> tuple[int, int, int]:
    """(base, rate, end) of the cell in which the context lies; no end is 2**62."""
    key_us = F[S[kernel_numbers] + KEY_US]
    at = min(n, S[kernel_most_decodes])
    if n > at:
        _say(S, DECODES, at, n)
    xs = S[measured_at] + S[kernel_contexts]
    cell = 0
    while cell + 1 < S[xs] and S[xs + 2 + cell] <= context:
        cell += 1
    begin = S[xs + 1 + cell]
    start = _grid_decode(S, F, at, float(begin))
    end = UNBOUNDED
    slope = at * key_us
    if cell + 1 < S[xs]:
        end = S[xs + 2 + cell]
        slope = (_grid_decode(S, F, at, float(end)) - start) / (end - begin)
    slope += (n - at) * key_us
    share = _alpha(S, F, n) if S[kernel_skewed] else 0.0
    if not longest:
        share = 1 - share
    us = S[kernel_layers] * share * AS_PER_US
    unit = 1 if longest else n * S[kernel_token_bytes]
    rate = round(us * slope / unit)
    return round(us * (start + (n - at) * begin * key_us)) - rate * begin * unit, rate, end


def kernel_linear(S: list[int], F: list[float]) -> tuple[int, int, int]:
    if S[S[t_chunks]]:
        return _kernel_mixed(S, F), 0, 1
    n, size = S[plan_decodes], S[kernel_token_bytes]
    read, grows = S[plan_read_bytes], S[plan_growth_bytes]
    xs = S[measured_at] + S[kernel_contexts]
    first = _kernel_dense(S, F, n, n)
    mean = read // (n * size)
    base, rate, until = _kernel_line(S, F, n, mean, False)
    if mean > S[xs + S[xs]]:
        _say(S, CONTEXT, S[xs + S[xs]], mean)
    first += base + rate * read
    growth = rate * grows
    valid = S[plan_max_steps]
    if grows and until < UNBOUNDED:
        valid = min(valid, -(-(until * n * size - read) // grows))
    if S[kernel_skewed] and read == S[plan_context] * size:
        longest = S[plan_longest]
        base, rate, until = _kernel_line(S, F, n, longest, True)
        first += base + rate * longest
        growth += rate
        if until < UNBOUNDED:
            valid = min(valid, until - longest)
    return first, growth, valid


def _kernel_mixed(S: list[int], F: list[float]) -> int:
    number = S[kernel_numbers]
    chunks = S[t_chunks]
    total = _kernel_dense(
        S, F, S[plan_decodes] + S[plan_prefill_tokens], S[plan_decodes] + S[chunks]
    )
    n, keys, longest = S[plan_decodes], S[plan_read_bytes] / S[kernel_token_bytes], S[plan_longest]
    tokens, pairs = 0, 0.0
    for i in range(S[chunks]):
        start, length = S[chunks + 2 + 4 * i], S[chunks + 3 + 4 * i]
        if length == 1:  # for the kernel a decode like others
            n, keys, longest = n + 1, keys + start + 1, max(longest, start + 1)
        else:
            tokens += length
            pairs += length * (start + length / 2)
    mean = keys / n if n else 0.0
    xs = S[measured_at] + S[kernel_contexts]
    if mean > S[xs + S[xs]]:
        _say(S, CONTEXT, S[xs + S[xs]], round(mean))
    us = _kernel_chunks(S, F, tokens, pairs, n, mean) if tokens else _kernel_decode(S, F, n, mean)
    if S[kernel_skewed] and longest > mean and n:
        us += F[number + SKEW_KEY_US] * (longest - mean)
    return total + round(S[kernel_layers] * us * AS_PER_US)


def _kernel_decode(S: list[int], F: list[float], n: int, mean: float) -> float:
    xs = S[measured_at] + S[kernel_contexts]
    at, context = min(n, S[kernel_most_decodes]), min(mean, float(S[xs + S[xs]]))
    beyond = n * mean - at * context
    return _grid_decode(S, F, at, context) + beyond * F[S[kernel_numbers] + KEY_US]


def _kernel_chunks(
    S: list[int], F: list[float], tokens: int, pairs: float, n: int, mean: float
) -> float:
    key_us, pair_us = F[S[kernel_numbers] + KEY_US], F[S[kernel_numbers] + PAIR_US]
    row = S[measured_at] + S[kernel_chunk_row]
    most, reach = S[row + S[row]], S[kernel_longest_earlier]
    size = min(tokens, most)
    earlier = pairs / tokens - tokens / 2
    if earlier > reach:
        _say(S, EARLIER, reach, round(earlier))
    known = min(max(earlier, 0.0), float(reach))
    us = alone = _grid_chunk(S, F, size, known, 0, 0.0)
    span = min(size, reach)
    if earlier < 0:  # triangles of several prompts are less than that of one
        slope = size * pair_us
        if span:
            slope = (_grid_chunk(S, F, size, float(span), 0, 0.0) - alone) / span
        us = max(us + slope * earlier, LEAST_SHARE * us)
    if tokens > most:
        _say(S, CHUNK_TOKENS, most, tokens)
    us += max(pairs - size * (known + size / 2), 0.0) * pair_us
    if n and not S[kernel_most_beside]:
        decode = _kernel_decode(S, F, n, mean)
        _say(S, NOTED, 0, 1)
        us = max(us, decode) if S[kernel_overlaps] else us + decode
    elif n:
        at = min(n, S[kernel_most_beside])
        if n > at:
            _say(S, BESIDE, at, n)
        xs = S[measured_at] + S[kernel_contexts]
        context = min(mean, float(S[xs + S[xs]]))
        us += _grid_chunk(S, F, size, known, at, context) - alone
        us += (n * mean - at * context) * key_us
    return us
