"""`sim.policy.counting.prefix_cache` and `blanks` as stretches of S; see `lists`.

A piece is nine numbers, known by the place of the first; no piece stands at 0. Pieces of a run are
linked in the order of its list, those without holders in the order of the queue, and a hold's by
nodes of (piece, the node before, the node behind). Names are numbers from 0 on, so a run's first
and last piece are found by place. Blocks without contents (`blanks`) are a ring: how many pairs,
the place of the first and the room, then pairs of when they were let go and how many.
"""

from sim.run.compiled.lists import list_append, list_remove

# Places in S, which `build` decides.
WIDTH = 0  # of a request
request_hold_done = request_hold_first = request_hold_inside = request_hold_last = 0
request_row = request_hold_run = request_hold_start = cache_idle_blocks = cache_pinned_blocks = 0
cache_lettings = blanks_blocks = blanks_area = 0
pieces_chains = pieces_runs = pieces_spare = pieces_fresh = pieces_idle = pieces_holders = 0
pieces_nodes = pieces_node_spare = t_found = 0

# -- from here on this is also the beginning of every compiled module --

START, END_, REFS, BACK, ON, AHEAD, BEHIND, SINCE, PIECE = 1, 2, 3, 4, 5, 6, 7, 8, 9


def chain(S: list[int], seq: int, block_size: int) -> int:
    """Chains are there from the beginning, by request."""
    return seq


def _chain(S: list[int], hold: int) -> int:
    """Where the pairs of its names begin."""
    return S[pieces_chains] + S[S[pieces_chains] + S[request_row + WIDTH * hold]]


def _new_piece(S: list[int], key: int, start: int, end: int, refs: int) -> int:
    piece = S[pieces_spare]
    if piece:
        S[pieces_spare] = S[piece + ON]
    else:
        piece = S[pieces_fresh]
        S[pieces_fresh] = piece + PIECE
    S[piece], S[piece + START], S[piece + END_], S[piece + REFS] = key, start, end, refs
    return piece


def _idle_behind(S: list[int], before: int, piece: int) -> None:
    """Into the queue behind another, which may be its beginning (0)."""
    ends = S[pieces_idle]
    behind = S[before + BEHIND] if before else S[ends]
    S[piece + AHEAD], S[piece + BEHIND] = before, behind
    if before:
        S[before + BEHIND] = piece
    else:
        S[ends] = piece
    if behind:
        S[behind + AHEAD] = piece
    else:
        S[ends + 1] = piece


def _not_idle(S: list[int], piece: int) -> None:
    ends = S[pieces_idle]
    before, behind = S[piece + AHEAD], S[piece + BEHIND]
    if before:
        S[before + BEHIND] = behind
    else:
        S[ends] = behind
    if behind:
        S[behind + AHEAD] = before
    else:
        S[ends + 1] = before


def _node_before(S: list[int], hold: int, behind: int, piece: int) -> None:
    """Into a hold's list, before a node or at its end (0)."""
    node = S[pieces_node_spare]
    if node:
        S[pieces_node_spare] = S[node + 2]
    else:
        node = S[pieces_nodes]
        S[pieces_nodes] = node + 3
    before = S[behind + 1] if behind else S[request_hold_last + WIDTH * hold]
    S[node], S[node + 1], S[node + 2] = piece, before, behind
    if before:
        S[before + 2] = node
    else:
        S[request_hold_first + WIDTH * hold] = node
    if behind:
        S[behind + 1] = node
    else:
        S[request_hold_last + WIDTH * hold] = node


def _found_append(S: list[int], found: int, piece: int, first: int, last: int) -> None:
    i = found + 1 + 3 * S[found]
    S[found] += 1
    S[i], S[i + 1], S[i + 2] = piece, first, last


def cache_match(S: list[int], seq: int, limit: int) -> int:
    found = S[t_found]
    S[found] = 0
    at = _chain(S, seq)
    while limit:
        length = S[at + 1]
        first = S[S[pieces_runs] + 2 * S[at]]
        if not first:
            break
        end = min(length, limit)
        if S[first + ON]:
            taken = _match_copies(S, first, end, found)
        else:
            taken = 0 if S[first + START] else min(S[first + END_], end)
            if taken:
                _found_append(S, found, first, 0, taken)
        if taken < length:
            break
        limit -= taken
        at += 2
    return found


def _match_copies(S: list[int], first: int, end: int, found: int) -> int:
    at = 0
    while at < end:
        piece = first
        while piece and not S[piece + START] <= at < S[piece + END_]:
            piece = S[piece + ON]
        if not piece:
            break
        last = min(S[piece + END_], end)
        one = first
        while one != piece:
            if S[one + START] > at:
                last = min(last, S[one + START])
            one = S[one + ON]
        _found_append(S, found, piece, at, last)
        at = last
    return at


def cache_blocks(S: list[int], found: int) -> int:
    total = 0
    for i in range(S[found]):
        j = found + 1 + 3 * i
        total += S[j + 2] - S[j + 1]
    return total


def cache_held_blocks(S: list[int], found: int) -> int:
    total = 0
    for i in range(S[found]):
        j = found + 1 + 3 * i
        if S[S[j] + REFS]:
            total += S[j + 2] - S[j + 1]
    return total


def cache_pin(S: list[int], hold: int, found: int) -> int:
    S[request_hold_first + WIDTH * hold] = S[request_hold_last + WIDTH * hold] = 0
    S[request_hold_done + WIDTH * hold] = S[request_hold_run + WIDTH * hold] = 0
    S[request_hold_start + WIDTH * hold] = S[request_hold_inside + WIDTH * hold] = 0
    list_append(S, S[pieces_holders], hold)
    for i in range(S[found]):
        j = found + 1 + 3 * i
        piece, first, last = S[j], S[j + 1], S[j + 2]
        if S[piece + START] != first or S[piece + END_] != last:
            piece = _cut(S, piece, first, last)
        if not S[piece + REFS]:
            _not_idle(S, piece)
            S[cache_idle_blocks] -= last - first
            S[cache_pinned_blocks] += last - first
        S[piece + REFS] += 1
        _node_before(S, hold, 0, piece)
        _move(S, hold, S[request_hold_done + WIDTH * hold] + last - first)
        S[request_hold_inside + WIDTH * hold] += last - first
    return hold


def cache_publish(S: list[int], hold: int, full: int) -> int:
    named = 0
    while S[request_hold_done + WIDTH * hold] < full:
        run = _chain(S, hold) + 2 * S[request_hold_run + WIDTH * hold]
        key, length = S[run], S[run + 1]
        start = S[request_hold_start + WIDTH * hold]
        first = S[request_hold_done + WIDTH * hold] - start
        last = min(full - start, length)
        ends = S[pieces_runs] + 2 * key
        node = S[request_hold_last + WIDTH * hold]
        piece = S[node] if node else 0
        if piece and piece == S[ends + 1] and S[piece + REFS] == 1 and S[piece + END_] == first:
            S[piece + END_] = last
        else:
            piece = _new_piece(S, key, first, last, 1)
            before = S[ends + 1]
            S[piece + BACK], S[piece + ON] = before, 0
            if before:
                S[before + ON] = piece
            else:
                S[ends] = piece
            S[ends + 1] = piece
            _node_before(S, hold, 0, piece)
        named += last - first
        _move(S, hold, start + last)
    S[request_hold_inside + WIDTH * hold] += named
    S[cache_pinned_blocks] += named
    return named


def _move(S: list[int], hold: int, done: int) -> None:
    S[request_hold_done + WIDTH * hold] = done
    run = S[request_hold_run + WIDTH * hold]
    end = S[request_hold_start + WIDTH * hold] + S[_chain(S, hold) + 2 * run + 1]
    if done == end:
        S[request_hold_run + WIDTH * hold] = run + 1
        S[request_hold_start + WIDTH * hold] = end


def cache_unpin(S: list[int], hold: int) -> int:
    freed = 0
    S[cache_lettings] += 1
    list_remove(S, S[pieces_holders], hold)
    node = S[request_hold_last + WIDTH * hold]
    while node:
        piece, before = S[node], S[node + 1]
        S[piece + REFS] -= 1
        if not S[piece + REFS]:
            _idle_behind(S, S[S[pieces_idle] + 1], piece)
            S[piece + SINCE] = S[cache_lettings]
            freed += S[piece + END_] - S[piece + START]
        S[node + 2] = S[pieces_node_spare]
        S[pieces_node_spare] = node
        node = before
    S[cache_idle_blocks] += freed
    S[cache_pinned_blocks] -= freed
    return freed


def cache_evict(S: list[int], blocks: int) -> None:
    S[cache_idle_blocks] -= blocks
    while blocks:
        piece = S[S[pieces_idle]]
        gone = min(S[piece + END_] - S[piece + START], blocks)
        S[piece + END_] -= gone
        blocks -= gone
        if S[piece + END_] == S[piece + START]:
            _not_idle(S, piece)
            before, behind = S[piece + BACK], S[piece + ON]
            ends = S[pieces_runs] + 2 * S[piece]
            if before:
                S[before + ON] = behind
            else:
                S[ends] = behind
            if behind:
                S[behind + BACK] = before
            else:
                S[ends + 1] = before
            S[piece + ON] = S[pieces_spare]
            S[pieces_spare] = piece


def _cut(S: list[int], piece: int, first: int, last: int) -> int:
    if S[piece + START] < first:
        front = _split(S, piece, first)
        if not S[piece + REFS]:
            _idle_behind(S, piece, front)
    if last == S[piece + END_]:
        return piece
    front = _split(S, piece, last)
    if not S[piece + REFS]:
        _idle_behind(S, S[S[pieces_idle] + 1], front)
    return front


def _split(S: list[int], piece: int, at: int) -> int:
    front = _new_piece(S, S[piece], S[piece + START], at, S[piece + REFS])
    S[front + SINCE] = S[piece + SINCE]
    S[piece + START] = at
    before = S[piece + BACK]
    S[front + BACK], S[front + ON] = before, piece
    S[piece + BACK] = front
    if before:
        S[before + ON] = front
    else:
        S[S[pieces_runs] + 2 * S[piece]] = front
    if S[piece + REFS]:
        holders = S[pieces_holders]
        for i in range(S[holders]):
            hold = S[holders + 1 + i]
            node = S[request_hold_first + WIDTH * hold]
            while node and S[node] != piece:
                node = S[node + 2]
            if node:
                _node_before(S, hold, node, front)
    return front


def cache_next_to_go(S: list[int]) -> tuple[int, int]:
    piece = S[S[pieces_idle]]
    return S[piece + SINCE], S[piece + END_] - S[piece + START]


def blanks_add(S: list[int], since: int, count: int) -> None:
    at = S[blanks_area]
    i = at + 3 + 2 * ((S[at + 1] + S[at]) % S[at + 2])
    S[at] += 1
    S[i], S[i + 1] = since, count
    S[blanks_blocks] += count


def blanks_since(S: list[int]) -> int:
    at = S[blanks_area]
    return S[at + 3 + 2 * S[at + 1]]


def blanks_take(S: list[int], most: int) -> int:
    at = S[blanks_area]
    i = at + 3 + 2 * S[at + 1]
    taken = min(S[i + 1], most)
    S[i + 1] -= taken
    if not S[i + 1]:
        S[at], S[at + 1] = S[at] - 1, (S[at + 1] + 1) % S[at + 2]
    S[blanks_blocks] -= taken
    return taken


def blanks_clear(S: list[int]) -> None:
    S[S[blanks_area]] = 0
    S[blanks_blocks] = 0
