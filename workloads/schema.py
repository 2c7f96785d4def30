"""What every reader produces and every simulation consumes: a trace as columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.sums import AT_ONCE
from workloads.typed import column

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def total(column: NDArray[Any]) -> int:
    """The sum as a Python integer: 64 bits hold any one length, but not the sum of many."""
    whole = 0
    for start in range(0, len(column), AT_ONCE):
        part = column[start : start + AT_ONCE]
        whole += (int((part >> 32).sum()) << 32) + int((part & 0xFFFFFFFF).sum())
    return whole


def freeze(*columns: Floats | Ints) -> None:
    """Make the arrays read-only: runs share a trace, so none of them may alter it."""
    for one in columns:
        one.setflags(write=False)


def _columns(holder: Any, prefix: str, **kinds: Any) -> None:
    """Fields of a frozen dataclass become columns of their type, read-only."""
    for name, kind in kinds.items():
        object.__setattr__(holder, name, column(f"{prefix}{name}", getattr(holder, name), kind))


@dataclass(frozen=True, slots=True, eq=False)
class PrefixBlocks:
    """Hash-chained prompt blocks, as public traces publish them.

    `ids[offsets[i]:offsets[i + 1]]` are request i's blocks, ceil(prompt / block_tokens) of them;
    equal ids mean an equal prefix up to and including that block.
    """

    block_tokens: int
    offsets: Ints  # (requests + 1,)
    ids: Ints  # (total blocks,)

    def __post_init__(self) -> None:
        _columns(self, "prefix.", offsets=np.int64, ids=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Which requests wait for whose answers: conversations, agents and their sub-agents.

    Request i is asked `delay_s[i]` after the last of the answers to requests
    `after[offsets[i]:offsets[i + 1]]`; one that waits for none is asked at its own stamp. All of
    them stand before it in the trace, and the stamps are the recorded ones, so that the same trace
    can be replayed as recorded.
    """

    session: Ints  # (n,) the conversation, numbered from 0 by its first request
    turn: Ints  # (n,) place in its line of requests, from 0; a sub-agent's own line begins anew
    offsets: Ints  # (n + 1,)
    after: Ints  # (waits,) rows
    delay_s: Floats  # (n,) think or tool time, >= 0

    def __post_init__(self) -> None:
        whole = dict.fromkeys(("session", "turn", "offsets", "after"), np.int64)
        _columns(self, "turns.", **whole, delay_s=np.float64)


@dataclass(frozen=True, slots=True)
class Provenance:
    """How the rows came to be, for `traces describe` and for the report."""

    source: str
    rows_read: int
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> rows
    notes: tuple[str, ...] = ()  # e.g. "sorted by arrival: 12 rows were out of order"
    reader: str = ""  # the format that it was read as, and what told it


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival; equal stamps keep file order.

    arrival_s (n,) float64, seconds, non-decreasing, first request at 0.0;
    prompt_tokens (n,) int64 >= 1; output_tokens (n,) int64 >= 1. Lists and other arrays of numbers
    become such arrays; where they can't, or differ in length, InputError is raised. A trace equals
    itself alone: whether two hold the same rows is asked of their arrays (`np.array_equal`).
    """

    name: str
    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    provenance: Provenance
    prefix: PrefixBlocks | None = None
    turns: Turns | None = None

    def __post_init__(self) -> None:
        _columns(self, "", arrival_s=np.float64, prompt_tokens=np.int64, output_tokens=np.int64)
        for name in ("prompt_tokens", "output_tokens"):
            if (rows := len(getattr(self, name))) != len(self.arrival_s):
                raise InputError(
                    f"{name} has {rows} rows, expected {len(self.arrival_s)}, as arrival_s has"
                )

    def __len__(self) -> int:
        return len(self.arrival_s)


if TYPE_CHECKING:
    Table: TypeAlias = Mapping[str, Any] | pd.DataFrame
else:
    Table = Mapping
"""A trace's columns by name, as a file would have them."""

TraceLike: TypeAlias = Trace | str | PathLike[str] | Table
"""A trace, or what `read_trace` makes one of."""
