"""Address spaces and the calendar of `sim.policy.counting` as stretches of S; see `lists`.

A space at `at`: `S[at]` is 0 for first fit, whose holes follow as (address, units) in order behind
their number; else the number of orders of a buddy allocator, `S[at + 1]` the room of each order's
list of free addresses. `trial` is a second space, for questions. A calendar's first number is the
next tick, and behind it stands who is due at all.
"""

from sim.run.compiled.lists import bit_length, list_append, list_discard

# Places in S, which `build` decides.
WIDTH = 0  # of a request
request_due = request_row = space_area = trial_area = calendar_area = t_due = 0
recorder_hole_table = recorder_holes = 0

# -- from here on this is also the beginning of every compiled module --

NOBODY = 2**62


def _order_at(S: list[int], at: int, order: int) -> int:
    return at + 2 + order * (S[at + 1] + 1)


def _largest(S: list[int], at: int) -> int:
    if S[at]:
        for order in range(S[at] - 1, -1, -1):
            if S[_order_at(S, at, order)]:
                return 1 << order
        return 0
    most = 0
    for i in range(S[at + 1]):
        most = max(most, S[at + 3 + 2 * i])
    return most


def _served(S: list[int], at: int, need: int) -> int:
    total = 0
    if S[at]:
        for order in range(S[at]):
            if 1 << order >= need:
                total += S[_order_at(S, at, order)] << order
        return total
    for i in range(S[at + 1]):
        units = S[at + 3 + 2 * i]
        if units >= need:
            total += units
    return total


def _insert(S: list[int], at: int, value: int) -> None:
    """Into a list that ascends."""
    i = S[at]
    S[at] = i + 1
    while i and S[at + i] > value:
        S[at + i + 1] = S[at + i]
        i -= 1
    S[at + i + 1] = value


def _allocate(S: list[int], at: int, units: int) -> int:
    """The address; -1 where no hole is large enough."""
    if S[at]:
        return _allocate_buddy(S, at, units)
    for i in range(S[at + 1]):
        j = at + 2 + 2 * i
        address, size = S[j], S[j + 1]
        if size >= units:
            if size > units:
                S[j], S[j + 1] = address + units, size - units
            else:
                _close(S, at, i)
            return address
    return -1


def _close(S: list[int], at: int, i: int) -> None:
    """Hole number i is none any more."""
    n = S[at + 1] - 1
    S[at + 1] = n
    for j in range(at + 2 + 2 * i, at + 2 + 2 * n):
        S[j] = S[j + 2]


def _allocate_buddy(S: list[int], at: int, units: int) -> int:
    order = bit_length(units - 1)
    found = order
    while found < S[at] and not S[_order_at(S, at, found)]:
        found += 1
    if found >= S[at]:
        return -1
    free = _order_at(S, at, found)
    address = S[free + 1]
    list_discard(S, free, address)
    while found > order:
        found -= 1
        _insert(S, _order_at(S, at, found), address + (1 << found))
    return address


def _release(S: list[int], at: int, address: int, units: int) -> None:
    if S[at]:
        order = bit_length(units - 1)
        while order + 1 < S[at] and list_discard(
            S, _order_at(S, at, order), address ^ (1 << order)
        ):
            address = min(address, address ^ (1 << order))
            order += 1
        _insert(S, _order_at(S, at, order), address)
        return
    n = S[at + 1]
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if S[at + 2 + 2 * middle] < address:
            low = middle + 1
        else:
            high = middle
    j = at + 2 + 2 * low
    before = low > 0 and S[j - 2] + S[j - 1] == address
    behind = low < n and S[j] == address + units
    if before and behind:
        S[j - 1] += units + S[j + 1]
        _close(S, at, low)
    elif before:
        S[j - 1] += units
    elif behind:
        S[j], S[j + 1] = address, S[j + 1] + units
    else:
        for k in range(at + 2 + 2 * n - 1, j - 1, -1):
            S[k + 2] = S[k]
        S[j], S[j + 1] = address, units
        S[at + 1] = n + 1


def space_largest(S: list[int]) -> int:
    return _largest(S, S[space_area])


def space_served(S: list[int], need: int) -> int:
    return _served(S, S[space_area], need)


def space_allocate(S: list[int], units: int) -> int:
    return _allocate(S, S[space_area], units)


def space_release(S: list[int], address: int, units: int) -> None:
    _release(S, S[space_area], address, units)


def space_copy(S: list[int]) -> None:
    at, to = S[space_area], S[trial_area]
    S[to], S[to + 1] = S[at], S[at + 1]
    if not S[at]:
        for i in range(2, 2 + 2 * S[at + 1]):
            S[to + i] = S[at + i]
    for order in range(S[at]):
        one, other = _order_at(S, at, order), _order_at(S, to, order)
        for i in range(S[one] + 1):
            S[other + i] = S[one + i]


def trial_allocate(S: list[int], units: int) -> int:
    return _allocate(S, S[trial_area], units)


def trial_release(S: list[int], address: int, units: int) -> None:
    _release(S, S[trial_area], address, units)


def noted_holes(S: list[int]) -> int:
    """Free spans into the recorder's table, in order of address; their number."""
    at = S[space_area]
    to = S[recorder_hole_table] + 2 * S[recorder_holes]
    n = 0
    if not S[at]:
        n = S[at + 1]
        for i in range(2 * n):
            S[to + i] = S[at + 2 + i]
    for order in range(S[at]):
        free = _order_at(S, at, order)
        for k in range(S[free]):
            address = S[free + 1 + k]
            i = n
            while i and S[to + 2 * i - 2] > address:
                S[to + 2 * i], S[to + 2 * i + 1] = S[to + 2 * i - 2], S[to + 2 * i - 1]
                i -= 1
            S[to + 2 * i], S[to + 2 * i + 1] = address, 1 << order
            n += 1
    S[recorder_holes] += n
    return n


def calendar_expect(S: list[int], seq: int, tick: int) -> None:
    at = S[calendar_area]
    S[request_due + WIDTH * seq] = tick
    list_append(S, at + 1, seq)
    S[at] = min(S[at], tick)


def calendar_forget(S: list[int], seq: int) -> None:
    at = S[calendar_area]
    tick = S[request_due + WIDTH * seq]
    if tick < 0:
        return
    S[request_due + WIDTH * seq] = -1
    list_discard(S, at + 1, seq)
    if tick == S[at]:
        soonest = NOBODY
        for i in range(S[at + 1]):
            soonest = min(soonest, S[request_due + WIDTH * S[at + 2 + i]])
        S[at] = soonest


def calendar_next(S: list[int]) -> int:
    return S[S[calendar_area]]


def calendar_at(S: list[int], tick: int) -> int:
    at, due = S[calendar_area], S[t_due]
    S[due] = 0
    for i in range(S[at + 1]):
        seq = S[at + 2 + i]
        if S[request_due + WIDTH * seq] == tick:
            _insert_by_row(S, due, seq)
    return due


def _insert_by_row(S: list[int], at: int, seq: int) -> None:
    """Into a list in the order of the trace, which that of slots isn't."""
    i = S[at]
    S[at] = i + 1
    while i and S[request_row + WIDTH * S[at + i]] > S[request_row + WIDTH * seq]:
        S[at + i + 1] = S[at + i]
        i -= 1
    S[at + i + 1] = seq
