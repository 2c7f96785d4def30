"""Who waits for whom, kept consistent when requests are picked."""

import numpy as np

from workloads.schema import Ints, Trace, Turns


def pick(turns: Turns, rows: Ints) -> Turns:
    """The turns of the given rows (m,), none twice, nobody before whom it waits for.

    Who waited for a row that is gone waits for the others; who is left with none comes at its
    stamp. Sessions are numbered anew.
    """
    place = np.full(len(turns.session), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    waiting = np.repeat(place, np.diff(turns.offsets))  # who waits, by its new number
    answering = place[turns.after]
    kept = np.flatnonzero((waiting >= 0) & (answering >= 0))
    kept = kept[np.argsort(waiting[kept], kind="stable")]
    counts = np.bincount(waiting[kept], minlength=len(rows))
    _, session = np.unique(turns.session[rows], return_inverse=True)
    return Turns(
        session=session.astype(np.int64),
        turn=turns.turn[rows],
        offsets=np.concatenate(([0], np.cumsum(counts))),
        after=answering[kept],
        delay_s=np.where(counts > 0, turns.delay_s[rows], 0.0),
    )


def lines(turns: Turns) -> Ints:
    """The line (n,) that each request belongs to, numbered by first requests.

    A turn belongs to the line of the one before it; a first turn begins a line of its own.
    """
    line = np.empty(len(turns.session), dtype=np.int64)
    count = 0
    for row, turn in enumerate(turns.turn.tolist()):
        before = turns.after[turns.offsets[row] : turns.offsets[row + 1]].tolist()
        own = next((one for one in before if turns.turn[one] == turn - 1), None) if turn else None
        if own is None:
            line[row] = count
            count += 1
        else:
            line[row] = line[own]
    return line


def joined(one: Trace, two: Trace, order: Ints) -> Turns | None:
    """Turns of both traces' rows, one after the other, put into `order` (n + m,).

    A trace without turns contributes sessions of a single request.
    """
    if one.turns is None and two.turns is None:
        return None
    first, second = (part.turns or alone(len(part)) for part in (one, two))
    rows = len(one)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    after = np.concatenate([first.after, second.after + rows])
    counts = np.concatenate([np.diff(first.offsets), np.diff(second.offsets)])
    starts = np.cumsum(counts) - counts
    sizes = counts[order]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    session = np.concatenate([first.session, second.session + int(first.session.max()) + 1])
    return Turns(
        session=session[order],
        turn=np.concatenate([first.turn, second.turn])[order],
        offsets=offsets,
        after=place[after[np.repeat(starts[order], sizes) + within]],
        delay_s=np.concatenate([first.delay_s, second.delay_s])[order],
    )


def alone(requests: int) -> Turns:
    """Requests that wait for nobody, each a session."""
    rows = np.arange(requests)
    nothing = np.zeros(requests, dtype=np.int64)
    return Turns(rows, nothing, np.zeros(requests + 1, np.int64), nothing[:0], np.zeros(requests))
