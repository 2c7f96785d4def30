"""What containers of policies take of a run's array, and how they begin; see `spaces`, `prefixes`.

A region is its size and its first numbers; the rest is 0, and costs no memory until it is written.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.policy.counting.address import AddressSpace, Buddy
from sim.policy.counting.windows import Windows
from sim.policy.manager import Manager
from sim.policy.shared_pages import SharedPages
from sim.run.compiled.prefixes import PIECE
from sim.run.compiled.windows import WINDOW
from workloads.schema import Trace

Ints = NDArray[np.int64]

ENDLESS = 2**62
HOLES = 1 << 15
"""Free spans noted with samples, before they are taken out."""


class Region(NamedTuple):
    size: int
    begin: Ints


def most_room(manager: Manager, most: int) -> int:
    """Numbers at most of all holds, where sequences share blocks: each might hold each of its own
    apart. Nearly all of them are never written."""
    if not isinstance(manager, SharedPages):
        return 0
    return 3 * most * (manager.longest() // manager.block_size + 2)


def regions(parts: Mapping[str, Any], trace: Trace, most: int) -> dict[str, Region]:
    """Of the parts that there are, by the field that holds the place; `most` sequences run."""
    found: dict[str, Region] = {}
    if "space" in parts:
        room = 4 * most + 64
        begin = _space(parts["space"], room)
        found["space_area"] = found["trial_area"] = Region(max(2 + 2 * room, len(begin)), begin)
        found["calendar_area"] = _region(2 + most, [ENDLESS])
        found["t_due"] = _region(1 + most)
    if "cache" in parts:
        found |= _pieces(parts["manager"], trace, most)
    if "windows" in parts:
        found |= _windows(parts["windows"])
    if "blanks" in parts:  # as it begins; each stretch of the queue is a block at least
        room = parts["blanks"].blocks + 1
        found["blanks_area"] = Region(3 + 2 * room, np.array([1, 0, room, 0, room - 1], np.int64))
    return found


def _region(size: int, begin: Any = ()) -> Region:
    return Region(size, np.asarray(begin, np.int64))


def _windows(windows: Windows) -> dict[str, Region]:
    """Each window's numbers, of which the last say where its lists lie behind the first number."""
    size, at, begin = sum(3 * one.cap + 5 for one in windows.sums), WINDOW * len(windows.sums), []
    for one in windows.sums:
        ends, queued, order = at, at + one.cap + 1, at + 2 * one.cap + 2
        begin += [one.cap, one.total, one.growing, one._span, ends, queued, order, 0]
        at = order + one.cap + 3
    assert at == WINDOW * len(windows.sums) + size
    groups = [number for group in windows.groups for number in group]
    return {
        "windows_area": Region(1 + at, np.array([len(windows.sums), *begin], np.int64)),
        "windows_groups": _region(1 + len(groups), [len(windows.groups), *groups]),
    }


def _space(space: AddressSpace, room: int) -> Ints:
    if isinstance(space, Buddy):
        orders = np.zeros((len(space._free), room + 1), np.int64)
        for order, free in zip(orders, space._free, strict=True):
            order[0], order[1 : 1 + len(free)] = len(free), free
        return np.array([len(orders), room, *orders.flat], np.int64)
    holes = space.holes()
    return np.array([0, len(holes), *(number for hole in holes for number in hole)], np.int64)


def _pieces(manager: SharedPages, trace: Trace, most: int) -> dict[str, Region]:
    names, chains = chains_of(trace, manager.block_size)
    longest = manager.longest() // manager.block_size + 2
    return {
        "pieces_chains": Region(len(chains), chains),
        "pieces_runs": _region(2 * names),
        # while blocks are named whose room is not yet taken from others, both are there
        "pieces_fresh": _region(PIECE * (2 * manager.blocks + most)),
        "pieces_nodes": _region(most_room(manager, most)),
        "pieces_idle": _region(2),
        "pieces_holders": _region(1 + most),
        "t_found": _region(1 + 3 * longest),
    }


def chains_of(trace: Trace, block_size: int) -> tuple[int, Ints]:
    """How many names there are, and `shared_pages.chain` of every request by columns.

    Chains begin with the place of each request's, and are pairs of a name's number and its blocks.
    """
    n = len(trace)
    prompts = trace.prompt_tokens
    names = keys = lengths = rows = np.zeros(0, np.int64)
    if trace.prefix is not None:
        offsets, ids = trace.prefix.offsets, trace.prefix.ids
        names, numbers = np.unique(ids, return_inverse=True)
        rows = np.repeat(np.arange(n), np.diff(offsets))
        place = np.arange(offsets[0], offsets[-1]) - offsets[:-1][rows] + 1
        ends = np.minimum(place * trace.prefix.block_tokens, prompts[rows]) // block_size
        before = np.where(place == 1, 0, np.concatenate([[0], ends[:-1]]))
        kept = ends > before
        keys, lengths = numbers[offsets[0] : offsets[-1]][kept], (ends - before)[kept]
        rows = rows[kept]
    counts = np.bincount(rows, minlength=n) + 1  # the last is the request's own
    begin = np.cumsum(counts) - counts
    pairs = np.empty((n + len(rows), 2), np.int64)
    pairs[begin + counts - 1] = np.stack([len(names) + np.arange(n), np.full(n, ENDLESS)], axis=1)
    shared = np.ones(len(pairs), bool)
    shared[begin + counts - 1] = False
    pairs[shared] = np.stack([keys, lengths], axis=1)
    return len(names) + n, np.concatenate([n + 2 * begin, pairs.ravel()])
