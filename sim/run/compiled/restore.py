"""A run's array back into the objects that it began as, and whether they contradict each other."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.policy.counting.address import Buddy
from sim.policy.counting.buffers import Buffer, Contiguous
from sim.policy.counting.windows import Windows
from sim.policy.growing import Copied, GrowingBuffers
from sim.policy.manager import Manager
from sim.policy.queued_pages import QueuedPages
from sim.policy.shared_pages import SharedPages
from sim.run.compiled.build import Program
from sim.run.compiled.kinds import INTS
from sim.run.compiled.prefixes import END_, PIECE, REFS, START
from sim.run.compiled.state import State
from sim.run.compiled.windows import WINDOW

NUMBERS = ("manager", "seen", "cache", "blanks", "swap")


def give_back(program: Program, state: State, parts: Mapping[str, Any]) -> None:
    """The manager's fields as the run left them, for whoever asks the objects."""
    for role in NUMBERS:
        if role not in parts:
            continue
        owner = parts[role]
        for name in vars(owner):
            if isinstance(getattr(owner, name), int) and f"{role}_{name}" in program.fields:
                setattr(owner, name, state[f"{role}_{name}"])
        for key in program.lists:
            if key[0] == role and key in INTS and hasattr(owner, key[1]):
                at, length = state[f"{role}_{key[1]}"], len(getattr(owner, key[1]))
                setattr(owner, key[1], state.array[at : at + length].tolist())
    if "space" in parts:
        _buffers(state, parts["manager"])
    if "windows" in parts:
        _windows(state, parts["windows"])


def _buffers(state: State, manager: Contiguous) -> None:
    at, space = state["space_area"], manager.space
    numbers = state.array[at : state["trial_area"]]
    if isinstance(space, Buddy):
        orders = numbers[2 : 2 + numbers[0] * (numbers[1] + 1)].reshape(numbers[0], -1)
        space._free = [order[1 : 1 + order[0]].tolist() for order in orders]
    else:
        space._holes = [tuple(h) for h in numbers[2 : 2 + 2 * numbers[1]].reshape(-1, 2).tolist()]  # type: ignore[attr-defined]
    fields = [state.of(name) for name in ("row", *(f"buffer_{name}" for name in Buffer._fields))]
    held = [*state.listed("scheduler_running"), *state.listed("scheduler_held")]
    numbers = np.array([column[np.array(held, int) - state.first] for column in fields])
    manager.buffers = {row: Buffer(*buffer) for row, *buffer in numbers.T.tolist()}
    if isinstance(manager, GrowingBuffers):
        at = state["manager__copied"]
        copied = state.array[at + 1 : at + 1 + 4 * state.array[at]].reshape(-1, 4).tolist()
        manager._copied = [Copied(*one) for one in copied]


def _windows(state: State, windows: Windows) -> None:
    """Sums alone: who fills a window when is asked no more."""
    at = state["windows_area"] + 1
    for place, one in enumerate(windows.sums):
        _, one.total, one.growing, *_, beside = state.array[at : at + WINDOW].tolist()
        windows.prefilling[place] = beside
        at += WINDOW


def check(state: State, manager: Manager) -> None:
    """Raise AssertionError where the state contradicts itself."""
    if not isinstance(manager, SharedPages):
        manager.check_integrity()
        return
    super(SharedPages, manager).check_integrity()
    pieces = state.array[state.starts["pieces_fresh"] : state["pieces_fresh"]].reshape(-1, PIECE)
    sizes = pieces[:, END_] - pieces[:, START]
    assert manager.cache.idle_blocks == sizes[pieces[:, REFS] == 0].sum()
    assert manager.cache.pinned_blocks == sizes[pieces[:, REFS] > 0].sum()
    assert manager.cache.idle_blocks <= manager.free
    assert manager.cache.pinned_blocks <= manager.blocks - manager.free
    if isinstance(manager, QueuedPages):
        at = state["blanks_area"]
        count, first, room = state.array[at : at + 3].tolist()
        queue = np.roll(state.array[at + 3 : at + 3 + 2 * room].reshape(-1, 2), -first, axis=0)
        assert manager.blanks.blocks == queue[:count, 1].sum()
        assert manager.blanks.blocks + manager.cache.idle_blocks == manager.free
