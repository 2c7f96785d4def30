"""How a trace format is declared: which columns it has and what they mean."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Unit = Literal["stamp", "s", "ms", "us", "ns"]

TICKS_PER_SECOND: dict[Unit, float] = {"stamp": 1e9, "s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclass(frozen=True, slots=True)
class Arrival:
    """The column of arrival times. `stamp` is a calendar time, with or without a UTC offset."""

    column: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Elapsed:
    """The column that says how long an answer took."""

    column: str
    unit: Unit = "s"


@dataclass(frozen=True, slots=True)
class Thread:
    """Columns that make sessions of rows: a session's name, or a chat's own and the one before."""

    id: str
    parent: str | None = None
    elapsed: Elapsed | None = None

    def fits(self, columns: Collection[str]) -> bool:
        """Whether a file has them; how long answers took is not needed."""
        return self.id in columns and (self.parent is None or self.parent in columns)


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A format, told from others by the columns a file has, never by the file's name.

    arrival is None where a format has lengths only. hash_ids names an optional column of prefix
    blocks; block_tokens is their size in tokens, or the name of the column that states it. marks
    are columns that are not read but must be present. failed_rows says that the format also
    publishes failed requests, whose prompt may be empty: they are dropped and counted. thread names
    optional columns that make sessions of rows.
    """

    name: str
    prompt: str
    output: str
    arrival: Arrival | None
    hash_ids: str | None = None
    block_tokens: int | str | None = None
    marks: tuple[str, ...] = ()
    failed_rows: bool = False
    thread: Thread | None = None

    @property
    def required(self) -> tuple[str, ...]:
        """Columns a file must have to be of this format."""
        arrival = () if self.arrival is None else (self.arrival.column,)
        return (*self.marks, *arrival, self.prompt, self.output)


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns one read needs from one file: column names by role, absent ones None."""

    arrival: Arrival | None
    prompt: str
    output: str
    hash_ids: str | None
    block_column: str | None
    block_tokens: int | None
    failed_rows: bool

    @property
    def columns(self) -> list[str]:
        """Names of the columns to load."""
        names = [
            self.arrival.column if self.arrival else None,
            self.prompt,
            self.output,
            self.hash_ids,
            self.block_column,
        ]
        return [name for name in names if name is not None]


class Position(NamedTuple):
    """A place in a file, by what stands before it: lines, and bytes once decompressed."""

    lines: int = 0
    byte: int = 0


class Rejected(Exception):
    """Some row is not what the format says; none before `start`, where that is known."""

    def __init__(self, reason: str = "", start: Position | None = None) -> None:
        super().__init__(reason)
        self.start = start


def require(condition: bool) -> None:
    """Raise Rejected unless it holds."""
    if not condition:
        raise Rejected


def types_of(selection: Selection) -> dict[str, Any]:
    """Arrow's type of each column to load."""
    import pyarrow as pa  # late: starting without it is faster

    arrival_types = {
        "stamp": pa.string(),
        "s": pa.float64(),
        "ms": pa.float64(),
        "us": pa.float64(),
        "ns": pa.int64(),
    }
    types = {selection.prompt: pa.int64(), selection.output: pa.int64()}
    if selection.arrival is not None:
        types[selection.arrival.column] = arrival_types[selection.arrival.unit]
    if selection.hash_ids is not None:
        types[selection.hash_ids] = pa.list_(pa.int64())
    if selection.block_column is not None:
        types[selection.block_column] = pa.int64()
    return types
