"""The gate for options that Python gives: each is of the type that its field says, or refused.

The command line's parser has read numbers and checked choices before; here nothing is converted but
numpy's numbers, which become Python's.
"""

import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from workloads.errors import InputError

_SAID = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}
_MOST_SHOWN = 60


class Accepted(NamedTuple):
    """What a field takes."""

    types: frozenset[type]
    choices: tuple[str, ...]

    @property
    def expected(self) -> str:
        """In words."""
        said = [*self.choices, *(_SAID[one] for one in _SAID if one in self.types)]
        return f"{', '.join(said[:-1])} or {said[-1]}" if said[1:] else said[0]


def check_fields(
    options: Any,
    things: Callable[[str, Any], str | None] | None = None,
    prefix: str = "",
) -> None:
    """Check each field of a frozen dataclass; fields of other than plain types are let through.

    `things` judges first: "" lets a value pass, a text says what is expected instead, and None
    leaves it to the field's type; whole numbers become Python's in all of them. Messages begin with
    the `prefix`. Raises InputError.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        expected = None if things is None else things(field.name, value)
        if expected:
            raise InputError(f"{prefix}{field.name} {said(value)}: expected {expected}")
        if expected is None:
            checked = plain(f"{prefix}{field.name}", value, field.type)
        else:
            checked = int(value) if is_whole(value) else value
        if checked is not value:
            object.__setattr__(options, field.name, checked)  # frozen for all but this


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A function's arguments, checked by its annotations, with numbers as Python's.

    Other than plain types are let through. Raises InputError.
    """
    return {
        name: plain(name, value, function.__annotations__[name]) for name, value in given.items()
    }


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, Python's or numpy's, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def plain(name: str, value: Any, hint: Any) -> Any:
    """The value if it is what the hint says. Raises InputError in one line."""
    accepted = _accepted(hint)
    if accepted is None or type(value) in accepted.types:
        return value
    if isinstance(value, str):
        if str in accepted.types or value in accepted.choices:
            return value
    elif isinstance(value, Path):
        if Path in accepted.types:
            return value
    elif _is_numpy_truth(value):
        if bool in accepted.types:
            return bool(value)
    elif not isinstance(value, bool):
        if accepted.types & {int, float} and isinstance(value, Integral):
            return int(value)
        if float in accepted.types and isinstance(value, Real):
            return float(value)
    raise InputError(f"{name} {said(value)}: expected {accepted.expected}")


def _is_numpy_truth(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # nobody has one who hasn't loaded it
    return numpy is not None and isinstance(value, numpy.bool_)


def said(value: Any) -> str:
    """A value in a message: text in quotes, a class by its name, things by their class's."""
    if isinstance(value, str):
        text = f'"{value}"'
    elif isinstance(value, type):
        text = value.__name__
    elif value is None or isinstance(value, int | float | Path | list | tuple | dict):
        text = reprlib.repr(value)
    else:
        text = f"({type(value).__name__})"
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


@cache
def _accepted(hint: Any) -> Accepted | None:
    """None where a hint is more than plain types and choices."""
    if get_origin(hint) is Annotated:
        return _accepted(get_args(hint)[0])
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    types, choices = set[type](), tuple[str, ...]()
    for part in parts:
        if get_origin(part) is Literal:
            choices += get_args(part)
        elif part in _SAID or part is NoneType:
            types.add(part)
        else:
            return None
    return Accepted(frozenset(types), choices)
