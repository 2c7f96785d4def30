"""Tables as columns by name, in memory or not, looked at by parts."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sim.engine.record import ROWS_AT_ONCE, Column


class Elsewhere(Mapping[str, Column]):
    """A table that isn't in memory: a column is read whenever it is asked for."""

    @abstractmethod
    def parts(self, names: tuple[str, ...]) -> Iterator[tuple[Column, ...]]:
        """These columns, some rows at a time."""


def parts(table: Mapping[str, Column], *names: str) -> Iterator[tuple[Any, ...]]:
    """These columns, some rows at a time and at least once."""
    if isinstance(table, Elsewhere):
        yield from table.parts(names)
        return
    columns = [table[name] for name in names]
    for start in range(0, max(1, len(columns[0])), ROWS_AT_ONCE):
        yield tuple(column[start : start + ROWS_AT_ONCE] for column in columns)


class InMemory:
    """A sink that keeps all rows."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Mapping[str, Column]]] = {}

    def add(self, table: str, part: Mapping[str, Column]) -> None:
        """As `Sink` says."""
        self._parts.setdefault(table, []).append(part)

    def whole(self, table: str) -> Mapping[str, Column]:
        """As `Sink` says. The parts go as they are joined, so that none is there twice for long."""
        return joined(self._parts.pop(table))


def joined(rows: "list[Mapping[str, Column]]") -> dict[str, Column]:
    """Parts of one table as whole columns."""
    if len(rows) == 1:
        return dict(rows[0])
    left = [dict(part) for part in rows]
    rows.clear()
    return {name: np.concatenate([part.pop(name) for part in left]) for name in [*left[0]]}
