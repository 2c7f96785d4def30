"""A run's objects as one array of integers, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.engine.scheduler import Scheduler
from sim.run.compiled.build import FIELDS, Program
from sim.run.compiled.kinds import COPIES, HEAPS, INTS, LISTS, PAIRS, code
from sim.run.compiled.regions import HOLES, Ints, Region
from sim.run.compiled.tables import SAID, Table

ROWS = 1 << 15  # of events, before they are taken out
SAMPLES = 1 << 12
COUNTS = 19
"""Columns of an event before its tally; see `given.recorder_stepped`."""
SAMPLE_COUNTS = 5
"""Columns of a sample before its tally; see `given.recorder_sample`."""

FILLED = {
    "recorder_event": "recorder_events",
    "recorder_sample": "recorder_samples",
    "recorder_stretch": "recorder_stretches",
    "recorder_hole": "recorder_holes",
}
"""How many rows of each table are filled."""
WIDTH = len(FIELDS)


class State:
    """What the lowered functions work on, and views of its parts.

    Fields come first, then lists and tables, then requests, one a slot: those inside and some that
    will come. Last are lists with room for all of these, which move when there are more slots.
    """

    def __init__(
        self,
        program: Program,
        slots: int,
        regions: Mapping[str, Region],
        tables: Mapping[str, tuple[int, int]],
        queues: tuple[str, ...],
        floats: NDArray[np.float64],
    ) -> None:
        """Lists and the like as they begin, rows and columns of tables, and names of the lists of
        requests; `floats` of step times that were measured."""
        self.floats = floats
        self.places = {name: i for i, name in enumerate(program.fields)}
        self._queues = queues
        self._tables: dict[str, tuple[int, int, int]] = {}
        starts, at = {}, len(self.places)
        for name, region in regions.items():
            starts[name] = at
            at += region.size
        for name, (rows, columns) in tables.items():
            starts[f"{name}_table"] = at
            self._tables[name] = at, rows, columns
            at += rows * columns
        self.first = -(-(at - len(self.places)) // WIDTH)
        """The number of the first slot, for a request's fields lie at a multiple of WIDTH."""
        self._begin = len(self.places) + self.first * WIDTH
        self.slots = slots
        self.array = np.zeros(self._begin + self._room(slots), np.int64)
        for name, place in starts.items():
            self[name] = place
        for name, region in regions.items():
            self.array[starts[name] : starts[name] + len(region.begin)] = region.begin
        self.starts = starts
        self._place_queues()

    def __getitem__(self, name: str) -> int:
        return int(self.array[self.places[name]])

    def __setitem__(self, name: str, value: int) -> None:
        self.array[self.places[name]] = value

    @property
    def requests(self) -> Ints:
        """(slots, FIELDS)."""
        return self.array[self._begin : self._begin + self.slots * WIDTH].reshape(-1, WIDTH)

    def of(self, field: str) -> Ints:
        """A column of requests."""
        column: Ints = self.requests[:, FIELDS.index(field)]
        return column

    def table(self, name: str) -> Ints:
        """The rows of a table that are filled."""
        at, rows, columns = self._tables[name]
        whole = self.array[at : at + rows * columns].reshape(rows, columns)
        return whole[: self[FILLED[name]]]

    def listed(self, name: str) -> list[int]:
        """Requests of a list."""
        at = self[name]
        found: list[int] = self.array[at + 1 : at + 1 + self.array[at]].tolist()
        return found

    def said(self) -> list[tuple[int, int]]:
        """Order and most of what a run said of a table; see `measured_lines._say`."""
        at = self["measured_said"] + 1
        pairs = self.array[at : at + 2 * SAID].reshape(SAID, 2).tolist()
        return [(order, most) for order, most in pairs]

    def feed(self) -> Ints:
        """The slots of rows at hand, in their order; room for all of them."""
        at = self["arrivals_slots"]
        return self.array[at : at + self.slots]

    def widen(self, slots: int) -> None:
        """More slots. Numbers of those there are stay as they are."""
        queues = {name: self._items(name) for name in self._queues}
        feed, old = self.feed().copy(), self.array
        kept = self._begin + self.slots * WIDTH
        self.slots = slots
        self.array = np.zeros(self._begin + self._room(slots), np.int64)
        self.array[:kept] = old[:kept]
        self._place_queues()
        self.feed()[: len(feed)] = feed
        for name, items in queues.items():
            at = self[name]
            self.array[at] = len(items)
            self.array[at + 3 : at + 3 + len(items)] = items

    def _room(self, slots: int) -> int:
        """Of requests and all that lies behind them: queues of any of them, and the feed."""
        return slots * WIDTH + len(self._queues) * (slots + 4) + slots

    def _place_queues(self) -> None:
        at = self._begin + self.slots * WIDTH
        for name in self._queues:
            self[name] = at
            self.array[at + 2] = self.slots + 1
            at += self.slots + 4
        self["arrivals_slots"] = at

    def _items(self, queue: str) -> Ints:
        at = self[queue]
        count, first, room = self.array[at : at + 3].tolist()
        return np.roll(self.array[at + 3 : at + 3 + room], -first)[:count]


def make_state(
    program: Program,
    parts: Mapping[str, Any],
    regions: Mapping[str, Region],
    table: Table,
    slots: int,
) -> State:
    """The state at the beginning, without requests; clocks and switches are left to the caller."""
    scheduler: Scheduler = parts["scheduler"]
    most = scheduler.limits.max_num_seqs + 2
    width = len(scheduler.manager.tally())
    queues = tuple(f"{role}_{name}" for role, name in program.lists if _is_queue(role, name))
    begun = {
        f"{role}_{name}": _begun(parts[role], role, name, most)
        for role, name in program.lists
        if not _is_queue(role, name) and hasattr(parts.get(role), name)
    }
    for name in program.scratch:
        begun[f"t_{name}"] = np.zeros((4 if name == "chunks" else 2) * most + 1, np.int64)
    for name in ("chunks", "admitted", "preempted", "first", "finished"):  # of a second plan
        begun[f"flight_{name}_list"] = np.zeros_like(begun[f"t_{name}"])
    whole, floats = table.arrays()
    begun["measured_at"] = whole
    placed = {name: Region(len(values), values) for name, values in begun.items()}
    placed["measured_said"] = Region(1 + 2 * SAID, np.zeros(0, np.int64))
    placed |= regions
    tables = {
        "recorder_event": (ROWS, COUNTS + width),
        "recorder_sample": (SAMPLES, SAMPLE_COUNTS + width),
        "recorder_stretch": (16 * most, 6),
        "recorder_hole": (HOLES, 2),
    }
    margin = {"recorder_stretch": 4 * most, "recorder_hole": 4 * most + 64}
    state = State(program, slots, placed, tables, queues, floats)
    for name, (rows, columns) in tables.items():
        state[f"{name}_room"] = rows - margin.get(name, 0)
        if name in ("recorder_event", "recorder_sample"):
            state[f"{name}_width"] = columns
    for name, value in table.fields.items():
        state[name] = value
    for name in program.fields:
        role, _, attribute = name.partition("_")
        if role in parts and name not in placed and name not in queues:
            found = getattr(parts[role], attribute, 0)  # 0: another kind's
            state[name] = code(found) if isinstance(found, str) else int(found)
    return state


def _is_queue(role: str, name: str) -> bool:
    return LISTS.get((role, name)) == "deque"


def _begun(owner: Any, role: str, name: str, most: int) -> Any:
    """A list as it begins: those of numbers as they are, those of requests empty."""
    found = getattr(owner, name)
    if (role, name) in COPIES:
        return np.zeros(1 + 4 * most, np.int64)
    if (role, name) in INTS:
        return np.asarray(found, np.int64)
    if (role, name) in PAIRS:
        return np.array([len(found), *(value for pair in found for value in pair)], np.int64)
    room = 2 * most
    if (kind := HEAPS.get((role, name))) is not None:
        room, width = (4 * most, 3) if kind == "heap" else (owner.cap + 1, 1)
        values = np.zeros(2 + room * width, np.int64)
        values[1] = room
        return values
    return np.zeros(room + 1, np.int64)
