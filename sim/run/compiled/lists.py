"""Lists as stretches of S, the one array of 64-bit integers that compiled functions work on.

A list at `at` has its length in `S[at]` and its items behind it; a deque has its first item's place
and its room in between, a heap of three integers an entry its room. As they stand here they can be
called from Python; `build` puts them at the beginning of every compiled module.
"""

# Places in S, which `build` decides.
WIDTH = 0  # of a request
request_admission = request_joined_tick = request_target = 0

# -- from here on this is also the beginning of every compiled module --


def bit_length(x: int) -> int:
    n = 0
    while x:
        x >>= 1
        n += 1
    return n


def list_append(S: list[int], at: int, value: int) -> None:
    n = S[at] + 1
    S[at] = n
    S[at + n] = value


def list_last(S: list[int], at: int) -> int:
    return S[at + S[at]]


def list_pop(S: list[int], at: int) -> int:
    n = S[at]
    S[at] = n - 1
    return S[at + n]


def list_clear(S: list[int], at: int) -> None:
    S[at] = 0


def list_has(S: list[int], at: int, value: int) -> bool:
    for i in range(S[at]):  # noqa: SIM110  # generators aren't compiled
        if S[at + 1 + i] == value:
            return True
    return False


def list_discard(S: list[int], at: int, value: int) -> bool:
    n = S[at]
    for i in range(n):
        if S[at + 1 + i] == value:
            for j in range(at + 1 + i, at + n):
                S[j] = S[j + 1]
            S[at] = n - 1
            return True
    return False


def list_remove(S: list[int], at: int, value: int) -> None:
    list_discard(S, at, value)


def list_extend(S: list[int], at: int, other: int) -> None:
    for i in range(S[other]):
        list_append(S, at, S[other + 1 + i])


def list_copy(S: list[int], at: int, to: int) -> int:
    S[to] = 0
    list_extend(S, to, at)
    return to


def ints_sum(S: list[int], at: int, low: int, high: int) -> int:
    total = 0
    for i in range(at + low, at + high):
        total += S[i]
    return total


def by_admission(S: list[int], at: int) -> None:
    for i in range(1, S[at]):
        seq = S[at + 1 + i]
        admission = S[request_admission + WIDTH * seq]
        j = i
        while j and S[request_admission + WIDTH * S[at + j]] > admission:
            S[at + 1 + j] = S[at + j]
            j -= 1
        S[at + 1 + j] = seq


def deque_first(S: list[int], at: int) -> int:
    return S[at + 3 + S[at + 1]]


def deque_append(S: list[int], at: int, value: int) -> None:
    n, first, room = S[at], S[at + 1], S[at + 2]
    S[at + 3 + (first + n) % room] = value
    S[at] = n + 1


def deque_appendleft(S: list[int], at: int, value: int) -> None:
    n, first, room = S[at], S[at + 1], S[at + 2]
    first = (first - 1) % room
    S[at + 3 + first] = value
    S[at], S[at + 1] = n + 1, first


def deque_popleft(S: list[int], at: int) -> int:
    n, first, room = S[at], S[at + 1], S[at + 2]
    S[at], S[at + 1] = n - 1, (first + 1) % room
    return S[at + 3 + first]


def contexts(S: list[int], at: int) -> int:
    n, first, room = S[at], S[at + 1], S[at + 2]
    total = 0
    for i in range(n):
        total += S[request_target + WIDTH * S[at + 3 + (first + i) % room]]
    return total


def items_append(S: list[int], at: int, a: int, b: int, c: int, d: int) -> None:
    i = at + 1 + 4 * S[at]
    S[i], S[i + 1], S[i + 2], S[i + 3] = a, b, c, d
    S[at] += 1


def items_remove(S: list[int], at: int, item: int) -> None:
    for j in range(item, at + 1 + 4 * (S[at] - 1)):
        S[j] = S[j + 4]
    S[at] -= 1


def tokens(S: list[int], at: int) -> int:
    total = 0
    for i in range(S[at]):
        total += S[at + 1 + 4 * i + 2]
    return total


def drop_preempted(S: list[int], at: int, running: int) -> None:
    n = S[at]
    S[at] = 0
    for i in range(n):
        j = at + 1 + 4 * i
        if list_has(S, running, S[j]):
            items_append(S, at, S[j], S[j + 1], S[j + 2], S[j + 3])


def heap_top(S: list[int], at: int) -> tuple[int, int, int]:
    return S[at + 2], S[at + 3], S[at + 4]


def heap_push(S: list[int], at: int, tick: int, admission: int, seq: int) -> None:
    if S[at] == S[at + 1]:
        _without_stale(S, at)
    n = S[at]
    S[at] = n + 1
    _rise(S, at + 2, n, tick, admission, seq)


def _rise(S: list[int], base: int, i: int, tick: int, admission: int, seq: int) -> None:
    while i:
        up = (i - 1) >> 1
        j = base + 3 * up
        if S[j] < tick or (S[j] == tick and S[j + 1] < admission):
            break
        k = base + 3 * i
        S[k], S[k + 1], S[k + 2] = S[j], S[j + 1], S[j + 2]
        i = up
    k = base + 3 * i
    S[k], S[k + 1], S[k + 2] = tick, admission, seq


def heap_pop(S: list[int], at: int) -> tuple[int, int, int]:
    top = heap_top(S, at)
    n = S[at] - 1
    S[at] = n
    base = at + 2
    last = base + 3 * n
    tick, admission, seq = S[last], S[last + 1], S[last + 2]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        j = base + 3 * child
        if child + 1 < n and (S[j + 3] < S[j] or (S[j + 3] == S[j] and S[j + 4] < S[j + 1])):
            child += 1
            j += 3
        if tick < S[j] or (tick == S[j] and admission < S[j + 1]):
            break
        k = base + 3 * i
        S[k], S[k + 1], S[k + 2] = S[j], S[j + 1], S[j + 2]
        i = child
    k = base + 3 * i
    S[k], S[k + 1], S[k + 2] = tick, admission, seq
    return top


def _without_stale(S: list[int], at: int) -> None:
    """Entries of who was preempted or left since are of no use: nobody would heed them."""
    n, base, kept = S[at], at + 2, 0
    for i in range(n):
        j = base + 3 * i
        tick, admission, seq = S[j], S[j + 1], S[j + 2]
        if (
            S[request_admission + WIDTH * seq] == admission
            and S[request_joined_tick + WIDTH * seq] >= 0
        ):
            _rise(S, base, kept, tick, admission, seq)
            kept += 1
    S[at] = kept


def ticks_top(S: list[int], at: int) -> int:
    return S[at + 2]


def ticks_push(S: list[int], at: int, tick: int) -> None:
    """A heap of ticks alone. Who pushes sees to it that none is in there twice."""
    i = S[at]
    S[at] = i + 1
    while i:
        up = (i - 1) >> 1
        if S[at + 2 + up] <= tick:
            break
        S[at + 2 + i] = S[at + 2 + up]
        i = up
    S[at + 2 + i] = tick


def ticks_pop(S: list[int], at: int) -> int:
    top, n = S[at + 2], S[at] - 1
    S[at] = n
    tick = S[at + 2 + n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and S[at + 3 + child] < S[at + 2 + child]:
            child += 1
        if tick <= S[at + 2 + child]:
            break
        S[at + 2 + i] = S[at + 2 + child]
        i = child
    S[at + 2 + i] = tick
    return top
