"""`sim.policy.counting.windows` as stretches of S; see `lists`.

Behind their number windows are eight numbers each: those of a sum, where its lists lie, and tokens
that are kept beside the batch. What a sum does is lowered from its class, on the fields of `seen`,
so a window's numbers take its place for that. Groups of layers are triples behind their number.
"""

from sim.run.compiled.made import made

seen_add = seen_remove = seen_linear_for = seen_advance = made

# Places in S, which `build` decides.
seen_cap = seen_total = seen_growing = seen__span = seen__ends = seen__queued = seen__order = 0
windows_area = windows_groups = 0

# -- from here on this is also the beginning of every compiled module --

WINDOW = 8


def _look(S: list[int], at: int) -> None:
    base = S[windows_area] + 1
    S[seen_cap], S[seen_total], S[seen_growing], S[seen__span] = (
        S[at],
        S[at + 1],
        S[at + 2],
        S[at + 3],
    )
    S[seen__ends], S[seen__queued] = base + S[at + 4], base + S[at + 5]
    S[seen__order] = base + S[at + 6]


def _put_back(S: list[int], at: int) -> None:
    S[at + 1], S[at + 2] = S[seen_total], S[seen_growing]


def windows_keep(S: list[int], length: int, sign: int) -> None:
    at = S[windows_area] + 1
    for _ in range(S[at - 1]):
        S[at + 7] += sign * min(length, S[at])
        at += WINDOW


def windows_join(S: list[int], length: int, tick: int) -> None:
    windows_keep(S, length, -1)
    at = S[windows_area] + 1
    for _ in range(S[at - 1]):
        _look(S, at)
        seen_add(S, length, tick)
        _put_back(S, at)
        at += WINDOW


def windows_rest(S: list[int], length: int, tick: int) -> None:
    at = S[windows_area] + 1
    for _ in range(S[at - 1]):
        _look(S, at)
        seen_remove(S, length, tick)
        _put_back(S, at)
        at += WINDOW
    windows_keep(S, length, 1)


def windows_linear_for(S: list[int], limit: int, tick: int) -> int:
    at = S[windows_area] + 1
    for _ in range(S[at - 1]):
        _look(S, at)
        limit = min(limit, seen_linear_for(S, tick))
        at += WINDOW
    return limit


def windows_advance(S: list[int], steps: int, tick: int) -> None:
    at = S[windows_area] + 1
    for _ in range(S[at - 1]):
        _look(S, at)
        seen_advance(S, steps, tick)
        _put_back(S, at)
        at += WINDOW


def windows_live_bytes(S: list[int], whole: int) -> tuple[int, int]:
    payload = side = 0
    groups = S[windows_groups]
    for i in range(S[groups]):
        at, tokens = groups + 1 + 3 * i, whole
        if S[at + 2] >= 0:
            window = S[windows_area] + 1 + WINDOW * S[at + 2]
            tokens = S[window + 1] + S[window + 7]
        payload += tokens * S[at]
        side += tokens * S[at + 1]
    return payload, side


def windows_reads(S: list[int], context: int, decoding: int) -> tuple[int, int]:
    first = growth = 0
    groups = S[windows_groups]
    for i in range(S[groups]):
        at = groups + 1 + 3 * i
        token = S[at] + S[at + 1]
        if S[at + 2] < 0:
            first += token * context
            growth += token * decoding
        else:
            window = S[windows_area] + 1 + WINDOW * S[at + 2]
            first += token * S[window + 1]
            growth += token * S[window + 2]
    return first, growth
