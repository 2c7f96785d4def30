"""Predicted beside measured: `validation.json` as `kvtwin validate` writes it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from reports import formats
from reports.run_json import Number, Part, Version, Whole
from workloads.console import console, sheet
from workloads.incoming import checked, read_json
from workloads.outgoing import visible_in


class Row(Part):
    """One metric of one policy; errors are (predicted - measured) / measured."""

    policy: str
    name: str
    label: str
    unit: str
    predicted: Number | None
    measured: Number | None
    error_percent: Number | None
    spread_percent: Number | None
    tolerance_percent: Number | None
    passed: Annotated[bool, Field(strict=True)] | None


class Validation(Part):
    """All judged rows of one validation."""

    schema_version: Version
    passed: Annotated[bool, Field(strict=True)]
    repeats: Whole
    machine: dict[str, Any] | None = None
    rows: tuple[Row, ...]


class Shown(NamedTuple):
    """A row as text."""

    label: str
    unit: str
    predicted: str
    measured: str
    error: str
    spread: str
    tolerance: str
    verdict: str


def load_validation(file: Path) -> Validation:
    """The file's content. Raises InputError naming the field at fault."""
    return checked(Validation, visible_in(read_json(file)), str(file))


def by_policy(rows: Iterable[Row]) -> dict[str, list[Shown]]:
    """Rows as text under their policies, in order."""
    grouped: dict[str, list[Shown]] = {}
    for row in rows:
        tolerance = row.tolerance_percent
        exact = "exact" if tolerance == 0 else f"{tolerance or 0:g}"
        grouped.setdefault(row.policy, []).append(
            Shown(
                row.label,
                row.unit if row.unit == "bytes" else formats.shown_unit(row.unit),
                _number(row.predicted, row.unit),
                _number(row.measured, row.unit),
                "" if row.error_percent is None else f"{row.error_percent:+.1f}",
                "" if row.spread_percent is None else f"{row.spread_percent:.1f}",
                "" if tolerance is None else exact,
                _verdict(row),
            )
        )
    return grouped


def _verdict(row: Row) -> str:
    """Nothing of what nobody judges; what should be and has no value is told."""
    if row.passed is None:
        return "" if row.tolerance_percent is None else "not judged"
    return "passed" if row.passed else "failed"


def _number(value: float | None, unit: str) -> str:
    """Bytes to the byte: they are compared for equality."""
    if unit == "bytes" and value is not None:
        return f"{value:,.0f}"
    return formats.number(value, unit)


def print_rows(content: dict[str, Any]) -> None:
    """A table on the terminal."""
    found = Validation.model_validate(content)
    for policy, rows in by_policy(found.rows).items():
        numbers = ("predicted", "measured", "error %", "spread %", "±", "")
        table = sheet("metric", "unit", *numbers, right=numbers)
        table.title, table.title_justify = policy, "left"
        for row in rows:
            table.add_row(*row)
        console().print(table)
    console().print("validation passed" if found.passed else "validation FAILED")
