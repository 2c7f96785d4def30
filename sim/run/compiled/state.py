"""A run's objects as one array of integers, and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.engine.requests import nanoseconds
from sim.engine.scheduler import Scheduler
from sim.plan import AS_PER_S
from sim.run.compiled.build import FIELDS, Program
from sim.run.compiled.kinds import CHUNK, HEAPS, INTS, LISTS, PAIRS, TIMES
from workloads.schema import Trace

ROWS = 1 << 16  # of events, before they are taken out
SAMPLES = 1 << 12
COUNTS = 16
"""Columns of an event before its tally; see `given.recorder_stepped`."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class State:
    """What the lowered functions work on, and views of its parts."""

    array: Ints
    places: Mapping[str, int]
    requests: Ints  # (requests, FIELDS)
    events: Ints  # (ROWS, COUNTS + tally)
    samples: Ints  # (SAMPLES, 4 + tally)
    stretches: Ints  # (most, 6): request, kind, from and until; see `given._stretch`

    def __getitem__(self, name: str) -> int:
        return int(self.array[self.places[name]])

    def __setitem__(self, name: str, value: int) -> None:
        self.array[self.places[name]] = value

    def of(self, field: str) -> Ints:
        """A column of requests."""
        column: Ints = self.requests[:, FIELDS.index(field)]
        return column


def make_state(program: Program, parts: Mapping[str, Any], trace: Trace, weights_as: Ints) -> State:
    """The state at the beginning; clocks and switches are left to the caller."""
    scheduler: Scheduler = parts["scheduler"]
    n, most = len(trace), scheduler.limits.max_num_seqs + 2
    width = len(scheduler.manager.tally())
    places = {name: i for i, name in enumerate(program.fields)}
    lists = {f"{role}_{name}": _begun(parts, role, name, n, most) for role, name in program.lists}
    for name in program.scratch:
        lists[f"t_{name}"] = np.zeros((len(CHUNK) if name == "chunks" else 2) * most + 1, np.int64)
    lists["cost_weights"] = np.concatenate([[len(weights_as)], weights_as])
    tables = {
        "recorder_event": (ROWS, COUNTS + width),
        "recorder_sample": (SAMPLES, 4 + width),
        "recorder_stretch": (16 * most, 6),
    }
    begin = len(places) + n * len(FIELDS)
    size = begin + sum(map(len, lists.values())) + sum(a * b for a, b in tables.values())
    array = np.zeros(size, np.int64)
    requests = array[len(places) : begin].reshape(n, len(FIELDS))
    at, views = begin, []
    for name, values in lists.items():
        array[at : at + len(values)] = values
        array[places[name]] = at
        at += len(values)
    for name, (rows, columns) in tables.items():
        array[places[f"{name}_table"]] = at
        array[places[f"{name}_room"]] = rows - (4 * most if name == "recorder_stretch" else 0)
        views.append(array[at : at + rows * columns].reshape(rows, columns))
        at += rows * columns
    state = State(array, places, requests, *views)
    state["recorder_event_width"], state["recorder_sample_width"] = COUNTS + width, 4 + width
    for name in program.fields:
        role, _, attribute = name.partition("_")
        if role in parts and name not in lists:
            state[name] = int(getattr(parts[role], attribute))
    _fill(state, trace)
    return state


def _begun(parts: Mapping[str, Any], role: str, name: str, n: int, most: int) -> Any:
    """A list as it begins: those of numbers as they are, those of requests empty."""
    found = getattr(parts[role], name)
    if (role, name) in INTS:
        return np.asarray(found, np.int64)
    if (role, name) in PAIRS:
        return np.array([len(found), *(value for pair in found for value in pair)], np.int64)
    room = 2 * most
    if (kind := HEAPS.get((role, name))) is not None:
        room, width = (4 * most, 3) if kind == "heap" else (parts[role].cap + 1, 1)
        values = np.zeros(2 + room * width, np.int64)
        values[1] = room
        return values
    if LISTS[role, name] == "deque":
        values = np.zeros(n + 4, np.int64)
        values[2] = n + 1
        return values
    return np.zeros(room + 1, np.int64)


def _fill(state: State, trace: Trace) -> None:
    state.of("arrival_ns")[:] = nanoseconds(trace.arrival_s)
    for name in ("prompt", "target"):
        state.of(name)[:] = trace.prompt_tokens
    state.of("output")[:] = trace.output_tokens
    for name in ("joined_tick", "admission", *(f"{name}_s" for name in TIMES)):
        state.of(name)[:] = -1
    state["arrivals_rows"] = len(trace)
    if len(trace):
        state["arrivals_next_as_s"], ns = divmod(int(state.of("arrival_ns")[0]), 10**9)
        state["arrivals_next_as_a"] = ns * (AS_PER_S // 10**9)
    else:
        state["arrivals_next_as_s"] = 2**62


def give_back(program: Program, state: State, parts: Mapping[str, Any]) -> None:
    """The manager's fields as the run left them, for whoever asks the objects."""
    for role in ("manager", "seen"):
        if role not in parts:
            continue
        owner = parts[role]
        for name in vars(owner):
            if isinstance(getattr(owner, name), int) and f"{role}_{name}" in program.fields:
                setattr(owner, name, state[f"{role}_{name}"])
        for key in program.lists:
            if key[0] == role and key in INTS:
                at, length = state[f"{role}_{key[1]}"], len(getattr(owner, key[1]))
                setattr(owner, key[1], state.array[at : at + length].tolist())
