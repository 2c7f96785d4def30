"""What a compiled run leaves, taken out of its tables part by part."""

from collections.abc import Callable
from typing import Any

import numpy as np

from reports.files import STRETCHES
from sim.engine.record import (
    EVENT_COUNTS,
    Column,
    Log,
    Sink,
    request_columns,
    stretches,
    tally_names,
    with_uses,
)
from sim.plan import AS_PER_S
from sim.policy.manager import Manager
from sim.run.compiled.regions import Ints
from sim.run.compiled.seconds import seconds
from sim.run.compiled.state import COUNTS, FILLED, SAMPLE_COUNTS, State
from sim.run.compiled.window import Window
from workloads.schema import Trace
from workloads.spool import forget


class Kept:
    """Events and requests go to a sink as they are taken; samples stay until the end."""

    def __init__(
        self,
        state: State,
        trace: Trace,
        manager: Manager,
        sink: Sink,
        told: Callable[[float], None] | None,
    ) -> None:
        self._state, self._trace, self._manager, self._sink = state, trace, manager, sink
        self._told = told
        self._tally = tally_names(manager)
        self._window = Window(state, trace)
        self._samples: list[dict[str, Column]] = []
        self._gaps: list[Any] = []
        self._ends: list[Any] = []
        self._away = np.zeros(state.slots)  # of the request in each slot
        self._redone = np.zeros(state.slots)
        self._held = bytearray()
        self._end_s = 0.0
        self._ended = False  # and slots are still those of the last step

    def take(self) -> None:
        """Empty the tables."""
        state = self._state
        t = state.table("recorder_event")
        part: dict[str, Column] = {
            "start_s": seconds(t[:, 0], t[:, 1]),
            "end_s": seconds(t[:, 2], t[:, 3]),
            "first_step_s": seconds(t[:, 4], t[:, 5]),
            "step_growth_s": seconds(t[:, 6] // AS_PER_S, t[:, 6] % AS_PER_S),
        }
        part |= zip(EVENT_COUNTS, (t[:, i].copy() for i in range(7, COUNTS)), strict=True)
        part |= {name: t[:, COUNTS + i] for i, name in enumerate(self._tally)}
        if len(t):
            self._end_s = float(part["end_s"][-1])
        self._sink.add("steps", with_uses(self._manager, part))
        q = state.table("recorder_sample")
        sampled: dict[str, Column] = {
            "time_s": seconds(q[:, 0], q[:, 1]),
            "running": q[:, 2].copy(),
            "waiting": q[:, 3].copy(),
        }
        sampled |= {name: q[:, SAMPLE_COUNTS + i] for i, name in enumerate(self._tally)}
        if self._manager.addresses:
            holes = state.table("recorder_hole")
            self._held += stretches(q[:, 4], holes, self._manager.addresses)
        self._samples.append(with_uses(self._manager, sampled))
        g = state.table("recorder_stretch")
        slot, until = g[:, 0] - state.first, seconds(g[:, 4], g[:, 5])
        took = until - seconds(g[:, 2], g[:, 3])
        gap, away, redone = (g[:, 1] == kind for kind in range(3))
        self._ends.append(until[gap])
        self._gaps.append(took[gap])
        np.add.at(self._away, slot[away], took[away])  # in order: sums of floats
        np.add.at(self._redone, slot[redone], took[redone])
        for filled in FILLED.values():
            state[filled] = 0

    def refill(self) -> None:
        """Take note of requests that have left, and let further ones come. The tables are empty."""
        self._note(self._window.settled())
        self._window.load()
        more = self._state.slots - len(self._away)
        self._away = np.pad(self._away, (0, more))
        self._redone = np.pad(self._redone, (0, more))
        forget(self._trace)

    def tell(self) -> None:
        """What share of the requests has left, to whom it matters."""
        if self._told is not None:
            state = self._state
            inside = sum(state.array[state[f"scheduler_{name}"]] for name in ("waiting", "running"))
            self._told((self._window.arrived - int(inside)) / len(self._trace))

    def log(self, interval_s: float) -> Log:
        """All tables, once the run has ended and the last of its own were taken."""
        window, self._ended = self._window, True
        self._note(window.all())
        self._ended = False  # rows that are loaded now get slots of requests in flight
        while window.end < len(self._trace):
            self._state["arrivals_row"] = self._state["arrivals_rows"]  # nobody comes any more
            window.load()
            self._note(window.all())
            forget(self._trace)
        if not len(self._trace):
            self._note(window.all(), even_none=True)
        samples = {
            name: np.concatenate([part[name] for part in self._samples])
            for name in self._samples[0]
        }
        return Log(
            self._sink.whole("requests"),
            self._sink.whole("steps"),
            samples,
            np.concatenate(self._gaps),
            self._end_s,
            np.concatenate(self._ends),
            np.frombuffer(self._held, np.uint8).reshape(-1, STRETCHES),
            interval_s,
        )

    def _note(self, slots: Any, even_none: bool = False) -> None:
        """The first requests of the window go to the sink, and their slots are free."""
        if not (len(slots) or even_none):
            return
        state, window = self._state, self._window
        rows = slice(window.begin, window.begin + len(slots))
        requests = {name: state.of(name)[slots] for name in ("joined_tick", "generated", "output")}
        joined = requests["joined_tick"]
        decoded = np.where(joined >= 0, state["manager_tick"] - joined, 0)
        had: dict[str, Column] = {
            "first_scheduled_s": self._instants("scheduled", slots),
            "first_token_s": self._instants("first", slots),
            "finish_s": self._instants("finish", slots),
            "generated_tokens": requests["generated"] + decoded - self._under_way(slots, joined),
            "preemptions": state.of("preemptions")[slots],
            "recomputed_tokens": state.of("recomputed")[slots],
            "cached_tokens": state.of("cached")[slots],
            "swapped_bytes": state.of("swapped_bytes")[slots],
            "preempted_s": self._away[slots],
            "recomputing_s": self._redone[slots],
        }
        trace = self._trace
        asked: dict[str, Column] = {
            "arrival_s": trace.arrival_s[rows],
            "prompt_tokens": trace.prompt_tokens[rows],
            "output_tokens": trace.output_tokens[rows],
        }
        refused = requests["output"] == 0
        self._sink.add("requests", request_columns(window.begin, asked, refused, had))
        self._away[slots] = self._redone[slots] = 0.0
        window.free(len(slots))

    def _under_way(self, slots: Any, joined: Ints) -> Ints:
        """1 for each request that a step still in flight would give a token."""
        state = self._state
        awaiting = np.zeros(state.slots, np.int64)
        if self._ended and state["loop_flying"]:
            at = state["flight_chunks_list"]
            chunks = state.array[at + 1 : at + 1 + 4 * state.array[at]].reshape(-1, 4)
            awaiting[chunks[chunks[:, 3] > 0, 0] - state.first] = 1
            awaiting[np.array(state.listed("flight_finished_list"), int) - state.first] = 1
            awaiting[slots[(joined >= 0) & (joined < state["manager_tick"])]] = 1
        under_way: Ints = awaiting[slots]
        return under_way

    def _instants(self, name: str, slots: Any) -> Column:
        whole, rest = self._state.of(f"{name}_s")[slots], self._state.of(f"{name}_a")[slots]
        known = seconds(np.maximum(whole, 0), rest)
        times: Column = np.where(whole >= 0, known, np.nan)
        return times
